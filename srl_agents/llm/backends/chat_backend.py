"""Protocol of chat backends: models behind an API, messages in and text out."""

from __future__ import annotations

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from srl_agents.errors import BackendError, PolicyError
from srl_agents.llm.backends import background_loop
from srl_agents.llm.backends.network import RetryPolicy, http_client
from srl_agents.llm.sampling import Sampling
from srl_envs.loading import needed_by
from srl_envs.untrusted import printable

Message = Mapping[str, str]
"""{"role": "system", "user" or "assistant", "content": text}."""
CONCURRENCY = 16  # concurrent requests
MOST_BYTES = 8 * 2**20  # of a reply; the longest answers of today's models take 1 or 2 MiB
TIMEOUT = 600.0  # seconds for one attempt; a model that reasons takes minutes
MOST_NAMES, LONGEST_NAME = 32, 200
"""Limits of the names that a server gives to models and to the ends of answers."""
OTHERS = "others"
"""Name of the counts beyond the first MOST_NAMES."""
RETRIES = RetryPolicy(deadline=900.0, unreachable=30.0)


@dataclass(frozen=True)
class ChatRequest:
    """Request for one answer."""

    messages: tuple[Message, ...]
    """Whole conversation, up to a user message."""
    sampling: Sampling
    seed: int | None = None


@dataclass(frozen=True)
class ChatAnswer:
    """Answer of an API."""

    text: str
    finish_reason: str
    """Reason of the end, as the API names it."""
    ended: bool
    """False if the answer was cut or withheld."""
    model: str
    """Model that answered, as the server names it."""
    prompt_tokens: int | None = None
    """Token counts are None if the server sends none."""
    completion_tokens: int | None = None


@dataclass
class Usage:
    """Answers and tokens of a model so far."""

    answers: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    """Includes hidden reasoning."""
    responses_without_usage: int = 0
    """Answers without token counts."""
    finish_reasons: dict[str, int] = field(default_factory=dict)
    models: dict[str, int] = field(default_factory=dict)
    """Name of the model in the reply -> number of answers."""

    def add(self, answer: ChatAnswer) -> None:
        """Count one answer."""
        prompt, completion = answer.prompt_tokens, answer.completion_tokens
        unknown = int(prompt is None or completion is None)
        by_kind = {answer.finish_reason: 1}, {answer.model: 1}
        self.add_usage(Usage(1, prompt or 0, completion or 0, unknown, *by_kind))

    def add_usage(self, other: Usage) -> None:
        """Add the counts of another Usage."""
        self.answers += other.answers
        self.prompt_tokens += other.prompt_tokens
        self.completion_tokens += other.completion_tokens
        self.responses_without_usage += other.responses_without_usage
        for counts, others in (
            (self.finish_reasons, other.finish_reasons),
            (self.models, other.models),
        ):
            for name, number in others.items():
                name = name if name in counts or len(counts) < MOST_NAMES else OTHERS
                counts[name] = counts.get(name, 0) + number


@runtime_checkable
class ChatModel(Protocol):
    """Model that answers conversations."""

    name: str
    """Name in records, such as 'openai:gpt-5-mini'."""
    usage: Usage
    takes_seed: bool

    def check(self, sampling: Sampling) -> None:
        """Raise PolicyError for settings that the API does not support."""

    async def answer(self, request: ChatRequest) -> ChatAnswer:
        """Return the answer from any event loop.

        Raises BackendError after the retries, and PolicyError as `check` does.
        """
        ...


def seed_from(rng: np.random.Generator) -> int:
    """Return a seed of 31 bits, which every API accepts."""
    return int(rng.integers(2**31))


def counted(tokens: Any) -> int | None:
    """Return the token count of a reply or None; raise ValueError for an invalid one."""
    if tokens is not None and (type(tokens) is not int or not 0 <= tokens < 2**31):
        raise ValueError(f"{tokens!r} is no number of tokens")
    return tokens


def named(value: Any) -> str:
    """Return a name from a server, printable and at most LONGEST_NAME characters long."""
    return printable(str(value)[:LONGEST_NAME], multiline=False)[:LONGEST_NAME]


class ApiModel(ABC):
    """Model behind an API, through its SDK, with limited concurrency. See ChatModel."""

    provider: ClassVar[str]
    """Prefix of names, and module of the SDK."""
    takes_seed: bool
    server_in: ClassVar[str]
    """Environment variable with the address of the server."""

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        concurrency: int = CONCURRENCY,
        timeout: float = TIMEOUT,
        retries: RetryPolicy = RETRIES,
    ) -> None:
        """Connect to the API.

        `timeout` is in seconds per attempt; `retries` limits all attempts. Raises BackendError
        for a missing SDK or key, and for an invalid key or address.
        """
        self.name = f"{self.provider}:{model}"
        self.usage = Usage()
        self._model = model
        self._retries = retries
        self._free = asyncio.Semaphore(concurrency)
        with needed_by(self.name, BackendError):
            self._sdk: Any = import_module(self.provider)
        self._client = self._connected(
            api_key=api_key,
            base_url=base_url,
            max_retries=0,
            timeout=timeout,
            http_client=http_client(
                self._sdk, base_url or os.environ.get(self.server_in, ""), most_bytes=MOST_BYTES
            ),
        )
        # HTTP libraries quote a header that they refuse, so the key would be part of the error.
        key = self._client.api_key or getattr(self._client, "auth_token", None) or ""
        if key != key.strip() or not (key.isascii() and key.isprintable()):
            raise BackendError(
                f"the key of {self.name} must be printable ASCII without spaces around it, got "
                f"{len(key)} characters with others, such as a line break"
            )

    @abstractmethod
    def check(self, sampling: Sampling) -> None: ...

    async def answer(self, request: ChatRequest) -> ChatAnswer:
        self.check(request.sampling)
        if request.seed is not None and not self.takes_seed:
            raise PolicyError(
                f"{self.name}: seed is {request.seed}, and this API takes none: give None"
            )
        return await background_loop.await_(self._answer(request))

    async def _answer(self, request: ChatRequest) -> ChatAnswer:
        async with self._free:
            answer = await self._retries.run(self.name, lambda: self._ask(request))
        self.usage.add(answer)
        return answer

    @abstractmethod
    def _connected(self, **settings: Any) -> Any: ...

    @abstractmethod
    async def _ask(self, request: ChatRequest) -> ChatAnswer: ...
