"""Data types that environments and models exchange."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from srl_agents.llm.sampling import Sampling
from srl_envs.errors import EnvConfigError


class MessageRole(StrEnum):
    """Author of a message."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    ENVIRONMENT = "environment"


@dataclass
class Message:
    """One message of a conversation.

    Raises:
        EnvConfigError: The role is unknown or the content is not text.
    """

    role: MessageRole | str
    """A plain string is converted to a MessageRole."""
    content: str
    metadata: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        try:
            self.role = MessageRole(self.role)
        except ValueError as error:
            allowed = ", ".join(MessageRole)
            raise EnvConfigError(f"role must be one of {allowed}, got {self.role!r}") from error
        if not isinstance(self.content, str):
            raise EnvConfigError(f"content must be text, got {self.content!r:.80}")


@dataclass
class Observation:
    """Observation of an agent: the conversation so far, newest message last."""

    messages: list[Message]
    state: Any = None
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
