"""Data types that environments and models exchange."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from srl_agents.llm.sampling import Sampling


class MessageRole(StrEnum):
    """Author of a message."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    ENVIRONMENT = "environment"


@dataclass
class Message:
    """One message of a conversation. Raises ValueError for an unknown role."""

    role: MessageRole | str
    """A plain string is converted to a MessageRole."""
    content: str

    def __post_init__(self) -> None:
        self.role = MessageRole(self.role)


@dataclass
class Observation:
    """Observation of an agent: the conversation so far, newest message last."""

    messages: list[Message]
    done: bool = False
    """True if the episode has ended."""
    info: dict[str, Any] = field(default_factory=dict)


@dataclass
class Reward:
    """Reward of one step, optionally with its components by name."""

    value: float
    components: dict[str, float] = field(default_factory=dict)
    info: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class GenerationConfig(Sampling):
    """Sampling settings of answers, with MRLM's defaults; temperature 0 decodes greedily."""

    top_p: float = 0.9
    top_k: int = 50
    max_new_tokens: int = 256
