"""Configuration of experiments, in Python and in YAML."""

from mrlm.config.algorithms import DPOConfig, GRPOConfig, PPOConfig, SFTConfig
from mrlm.config.experiment import (
    DistributedConfig,
    EnvironmentConfig,
    ExperimentConfig,
    ModelConfig,
    OutputConfig,
    TrainingConfig,
)
from mrlm.config.files import ConfigParser, load_config

__all__ = [
    "ConfigParser",
    "DPOConfig",
    "DistributedConfig",
    "EnvironmentConfig",
    "ExperimentConfig",
    "GRPOConfig",
    "ModelConfig",
    "OutputConfig",
    "PPOConfig",
    "SFTConfig",
    "TrainingConfig",
    "load_config",
]
