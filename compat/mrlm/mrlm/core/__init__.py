"""Environments, language models as environments, and the data types that both exchange."""

from mrlm.core.environment import EnvironmentMode, SimulatedEnvironment
from mrlm.core.language_model import LLMEnvironment
from mrlm.core.types import GenerationConfig, Message, MessageRole, Observation, Reward

__all__ = [
    "EnvironmentMode",
    "GenerationConfig",
    "LLMEnvironment",
    "Message",
    "MessageRole",
    "Observation",
    "Reward",
    "SimulatedEnvironment",
]
