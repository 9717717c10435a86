"""Protocol of chat backends: models behind an API that receive messages and return text."""

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
from srl_agents.llm.backends.network import http_client, within
from srl_agents.llm.sampling import Sampling
from srl_envs.loading import needed_by
from srl_envs.untrusted import printable

Message = Mapping[str, str]
"""{"role": "system", "user" or "assistant", "content": text}."""
CONCURRENCY = 16
MOST_BYTES = 8 * 2**20
"""Maximum size of a reply; the longest answers of current models take 1 to 2 MiB."""
TIMEOUT = 600.0
"""Default seconds per request; reasoning models take minutes."""
MAX_RETRIES = 6
"""Default number of retries, which take about 20 seconds without a Retry-After."""
LONGEST_NAME = 200
"""Maximum length of the names from a server that are counted in `Usage`."""


@dataclass(frozen=True)
class ChatRequest:
    """Request for one answer: conversation, sampling settings and seed."""

    messages: tuple[Message, ...]
    """Messages to send; the last has the role "user"."""
    sampling: Sampling
    seed: int | None = None
    """Seed of the answer; None for APIs without seeds."""


@dataclass(frozen=True)
class ChatAnswer:
    """Answer of an API: text, reason of its end, name of the model and token counts."""

    text: str
    finish_reason: str
    """API's name for the reason why the answer ended."""
    ended: bool
    """False if the answer was cut or withheld."""
    model: str
    """Server's name for the model that answered."""
    prompt_tokens: int | None = None
    """Number of prompt tokens; None if the server reports none."""
    completion_tokens: int | None = None
    """Number of tokens of the answer, with hidden reasoning; None if the server reports none."""


@dataclass
class Usage:
    """Number of answers and tokens of a model so far."""

    answers: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    """Number of tokens of all answers, with hidden reasoning."""
    responses_without_usage: int = 0
    """Number of answers with a missing token count, which adds 0."""
    finish_reasons: dict[str, int] = field(default_factory=dict)
    """Reason of the end -> number of answers."""
    models: dict[str, int] = field(default_factory=dict)
    """Server's name for the model -> number of answers."""

    def add(self, answer: ChatAnswer) -> None:
        prompt, completion = answer.prompt_tokens, answer.completion_tokens
        unknown = int(prompt is None or completion is None)
        by_name = {answer.finish_reason: 1}, {answer.model: 1}
        self.add_usage(Usage(1, prompt or 0, completion or 0, unknown, *by_name))

    def add_usage(self, other: Usage) -> None:
        self.answers += other.answers
        self.prompt_tokens += other.prompt_tokens
        self.completion_tokens += other.completion_tokens
        self.responses_without_usage += other.responses_without_usage
        for counts, others in (
            (self.finish_reasons, other.finish_reasons),
            (self.models, other.models),
        ):
            for name, number in others.items():
                counts[name] = counts.get(name, 0) + number


@runtime_checkable
class ChatModel(Protocol):
    """Model that answers conversations with text."""

    name: str
    """Name in records, such as 'openai:gpt-5-mini'."""
    usage: Usage
    takes_seed: bool
    """True if requests may contain a seed."""

    def check(self, sampling: Sampling) -> None:
        """Raise PolicyError if the API does not support one of the sampling settings."""

    async def answer(self, request: ChatRequest) -> ChatAnswer:
        """Return the ChatAnswer to a conversation, in any event loop, and count it in `usage`.

        Raises:
            BackendError: There was no answer, after all retries.
            PolicyError: The API does not support a setting of the request.
        """
        ...


def seed_from(rng: np.random.Generator) -> int:
    """Draw a seed of 31 bits, which every API accepts."""
    return int(rng.integers(2**31))


def token_count(value: Any) -> int | None:
    """Return `value` if it is None or an integer from 0 to 2**31 - 1; else raise ValueError."""
    if value is not None and (type(value) is not int or not 0 <= value < 2**31):
        raise ValueError(f"a token count must be an integer from 0, got {value!r}")
    return value


def server_text(value: Any) -> str:
    """Return a name from a reply as printable text of at most LONGEST_NAME characters."""
    return printable(str(value)[:LONGEST_NAME], multiline=False)[:LONGEST_NAME]


class ApiModel(ABC):
    """Base class of ChatModels that use the SDK of an API, with limited concurrency."""

    provider: ClassVar[str]
    """Prefix of model names, and module of the SDK."""
    takes_seed: bool
    server_in: ClassVar[str]
    """Environment variable that contains the address of the server."""

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        concurrency: int = CONCURRENCY,
        timeout: float = TIMEOUT,
        max_retries: int = MAX_RETRIES,
    ) -> None:
        """Create the SDK's client; no request is sent.

        Args:
            model: The API's name for the model.
            api_key: Key; None reads the environment variable of the SDK.
            base_url: Address of the server; None reads the environment variable of the SDK.
            concurrency: Maximum number of concurrent requests, 1 or more.
            timeout: Seconds per request, retries included.
            max_retries: Number of retries after temporary failures.

        Raises:
            BackendError: The SDK or the key is missing, or the key or the address is not valid.
        """
        self.name = f"{self.provider}:{model}"
        self.usage = Usage()
        self._model = model
        self._timeout = timeout
        self._free = asyncio.Semaphore(concurrency)
        with needed_by(self.name, BackendError):
            self._sdk: Any = import_module(self.provider)
        self._client = self._connected(
            api_key=api_key,
            base_url=base_url,
            max_retries=max_retries,
            timeout=timeout,
            http_client=http_client(
                self._sdk, base_url or os.environ.get(self.server_in, ""), most_bytes=MOST_BYTES
            ),
        )
        # HTTP libraries quote an invalid header in their errors, which would reveal the key.
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
                f"{self.name}: seed must be None, because this API has no seeds, got {request.seed}"
            )
        return await background_loop.await_(self._answer(request))

    async def _answer(self, request: ChatRequest) -> ChatAnswer:
        async with self._free:
            answer = await within(self._timeout, self.name, self._ask(request))
        self.usage.add(answer)
        return answer

    @abstractmethod
    def _connected(self, **settings: Any) -> Any:
        """Return a client of the SDK; raise BackendError without a key."""

    @abstractmethod
    async def _ask(self, request: ChatRequest) -> ChatAnswer:
        """Send one request and return its answer; raise BackendError if there is none."""
