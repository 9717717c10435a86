"""Algorithms: PPO, GRPO, DPO and SFT, each a trainer of a model in environments or from data."""

from mrlm.algorithms.dpo import DPOTrainer, PreferenceDataset, PreferencePair
from mrlm.algorithms.grpo import GRPOTrainer
from mrlm.algorithms.policy import load_policy
from mrlm.algorithms.ppo import PPOTrainer
from mrlm.algorithms.sft import SFTTrainer

__all__ = [
    "DPOTrainer",
    "GRPOTrainer",
    "PPOTrainer",
    "PreferenceDataset",
    "PreferencePair",
    "SFTTrainer",
    "load_policy",
]
