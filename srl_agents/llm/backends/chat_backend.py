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
CONCURRENCY = 16  # requests under way at once
MOST_BYTES = 8 * 2**20  # of a reply; the longest answers of today's models take 1 or 2 MiB
TIMEOUT = 600.0  # seconds for one attempt; a model that reasons takes minutes
MOST_NAMES, LONGEST_NAME = 32, 200
"""Limits of the names that a server gives to models and to the ends of answers."""
OTHERS = "others"
"""Count of the names beyond the first MOST_NAMES."""
RETRIES = RetryPolicy(deadline=900.0, unreachable=30.0)
"""Patient, for one failed request spoils an episode; a server that is not there is soon told."""


@dataclass(frozen=True)
class ChatRequest:
    """One answer to ask for: plain data."""

    messages: tuple[Message, ...]
    """The whole conversation; the last message is the user's."""
    sampling: Sampling
    seed: int | None = None
    """For models that take one, as best they can; None draws freely."""


@dataclass(frozen=True)
class ChatAnswer:
    """What came back for one request."""

    text: str
    """Empty where nothing was said; a refusal is what it says."""
    finish_reason: str
    """Why it ended, in the API's own word."""
    ended: bool
    """The model came to its end by itself: it was not cut, and nothing was withheld."""
    model: str
    """Who answered, as the server says."""
    prompt_tokens: int | None = None
    """None where the server did not tell; so for the next."""
    completion_tokens: int | None = None


@dataclass
class Usage:
    """What a model has been asked so far: what is paid for."""

    answers: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    """Reasoning that is not shown is in it."""
    responses_without_usage: int = 0
    """Answers whose tokens the server did not tell, which are not in the sums."""
    finish_reasons: dict[str, int] = field(default_factory=dict)
    """Why answers ended -> how many."""
    models: dict[str, int] = field(default_factory=dict)
    """Who answered, as the server says -> how many: a name may stand for another version
    tomorrow."""

    def add(self, answer: ChatAnswer) -> None:
        """Count one more."""
        tokens = answer.prompt_tokens, answer.completion_tokens
        by_kind = {answer.finish_reason: 1}, {answer.model: 1}
        self.add_usage(Usage(1, tokens[0] or 0, tokens[1] or 0, int(None in tokens), *by_kind))

    def add_usage(self, other: Usage) -> None:
        """Count what another one counted."""
        self.answers += other.answers
        self.prompt_tokens += other.prompt_tokens
        self.completion_tokens += other.completion_tokens
        self.responses_without_usage += other.responses_without_usage
        for counts, others in (
            (self.finish_reasons, other.finish_reasons),
            (self.models, other.models),
        ):
            for what, number in others.items():
                known = what in counts or len(counts) < MOST_NAMES
                name = what if known else OTHERS
                counts[name] = counts.get(name, 0) + number


@runtime_checkable
class ChatModel(Protocol):
    """A model that can be asked for answers to conversations."""

    name: str
    """Its name in records and reports, such as 'openai:gpt-5-mini'."""
    usage: Usage
    """What it has been asked so far."""
    takes_seed: bool
    """Whether a request may have a seed."""

    def check(self, sampling: Sampling) -> None:
        """Raise PolicyError for settings that the API does not know."""
        ...

    async def answer(self, request: ChatRequest) -> ChatAnswer:
        """What the model says.

        Raises BackendError with the cause where it still fails after the retries, and PolicyError
        for settings that the API does not know.
        """
        ...


def seed_from(rng: np.random.Generator) -> int:
    """A seed for a request, 31 bits: what every API's integers hold."""
    return int(rng.integers(2**31))


def counted(tokens: Any) -> int | None:
    """Tokens that a server says it read or wrote; None where it says nothing.

    Raises ValueError for what is no number of tokens.
    """
    if tokens is not None and (type(tokens) is not int or not 0 <= tokens < 2**31):
        raise ValueError(f"{tokens!r} is no number of tokens")
    return tokens


def named(value: Any) -> str:
    """Return a name that a server gave, printable and of at most LONGEST_NAME characters."""
    return printable(str(value)[:LONGEST_NAME], multiline=False)[:LONGEST_NAME]


class ApiModel(ABC):
    """A model behind an API, asked through its provider's SDK; see ChatModel.

    A bounded number of requests is under way at once, and what they took is counted.
    """

    provider: ClassVar[str]
    """As models are named, and as the SDK is imported."""
    takes_seed: bool
    server_in: ClassVar[str]
    """The environment variable that names another server than the provider's."""

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
        """`timeout` is in seconds, for one attempt; `retries` bounds all of them together.

        Raises BackendError where the SDK or a key is missing, and for a key or an address that no
        request can have.
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
                self._sdk,
                base_url or os.environ.get(self.server_in, ""),
                most_bytes=MOST_BYTES,
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
    def check(self, sampling: Sampling) -> None:
        """Raise PolicyError for settings that the API does not know."""

    async def answer(self, request: ChatRequest) -> ChatAnswer:
        """What the model says; awaited in any event loop. Raises as ChatModel does."""
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
    def _connected(self, **settings: Any) -> Any:
        """The SDK's client; raises BackendError where a key is missing."""

    @abstractmethod
    async def _ask(self, request: ChatRequest) -> ChatAnswer:
        """Send the request once."""
