"""Algorithms: PPO, GRPO, DPO and SFT, with one trainer class each."""

from mrlm.algorithms.dpo import DPOTrainer, PreferenceDataset, PreferencePair
from mrlm.algorithms.grpo import GRPOTrainer
from mrlm.algorithms.ppo import PPOTrainer
from mrlm.algorithms.sft import SFTTrainer
from mrlm.algorithms.trainer import load_policy

__all__ = [
    "DPOTrainer",
    "GRPOTrainer",
    "PPOTrainer",
    "PreferenceDataset",
    "PreferencePair",
    "SFTTrainer",
    "load_policy",
]
