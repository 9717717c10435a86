"""Types that environments exchange: messages, observations, rewards, sampling settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Self

from srl_agents.llm.sampling import Sampling
from srl_envs.errors import EnvConfigError


class MessageRole(StrEnum):
    """Who speaks."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    ENVIRONMENT = "environment"


@dataclass
class Message:
    """What one side said."""

    role: MessageRole | str
    """Given as text it becomes a MessageRole; raises EnvConfigError for another."""
    content: str
    metadata: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        try:
            self.role = MessageRole(self.role)
        except ValueError as error:
            known = ", ".join(MessageRole)
            raise EnvConfigError(f"role: got {self.role!r}: give one of {known}") from error
        if not isinstance(self.content, str):
            raise EnvConfigError(f"content: got {self.content!r:.80}: give a text")

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Back from plain data."""
        return cls(data["role"], data["content"], dict(data.get("metadata", {})))


@dataclass
class Observation:
    """What is told: the conversation so far, the newest message last."""

    messages: list[Message]
    state: Any = None
    done: bool = False
    info: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """As plain data, where `state` and `info` are."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Back from plain data."""
        messages = [Message.from_dict(message) for message in data["messages"]]
        return cls(messages, data.get("state"), data.get("done", False), dict(data.get("info", {})))


@dataclass
class Reward:
    """Reward of one step, and what it is made of."""

    value: float
    components: dict[str, float] = field(default_factory=dict)
    info: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """As plain data, where `info` is."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Back from plain data."""
        return cls(data["value"], dict(data.get("components", {})), dict(data.get("info", {})))


@dataclass(frozen=True)
class GenerationConfig:
    """How answers are sampled; with `do_sample` false the most likely token is taken each time."""

    max_new_tokens: int = 256
    temperature: float = 1.0
    top_p: float = 0.9
    top_k: int = 50
    do_sample: bool = True

    def sampling(self) -> Sampling:
        """What backends take; raises ValueError for what cannot be."""
        temperature = self.temperature if self.do_sample else 0.0
        return Sampling(temperature, self.top_p, self.top_k, self.max_new_tokens)
