"""Protocol of token backends: requests and completions as tokens, in batches. No torch."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar
from weakref import WeakKeyDictionary

from srl_agents.episode import ModelVersion
from srl_agents.errors import BackendError
from srl_agents.llm.chat_format import ChatFormat
from srl_agents.llm.sampling import Sampling


@dataclass(frozen=True, eq=False)
class TokenTrie:
    """Trie of legal answers; a leaf allows no more tokens."""

    children: Mapping[int, TokenTrie]
    """Next token -> subtrie, in the order of the answers."""
    allowed: tuple[int, ...]
    """Keys of `children`."""
    answers: int
    """Number of legal answers below."""


def answer_trie(answers: Sequence[Sequence[int]], end_of_turn: int) -> TokenTrie:
    """Return the trie of the answers' token ids, each closed by `end_of_turn`.

    Raises:
        ValueError: There is no answer, an answer is empty, or two answers are equal.
    """
    if not answers:
        raise ValueError("constrained choice needs at least one legal answer; got none")
    sequences = [tuple(answer) for answer in answers]
    if not all(sequences) or len(set(sequences)) < len(sequences):
        raise ValueError(f"legal answers must have tokens and differ, got {sequences}")
    return _grow([(*sequence, end_of_turn) for sequence in sequences])


known_trie = functools.lru_cache(maxsize=1024)(answer_trie)


def _grow(tails: Sequence[tuple[int, ...]]) -> TokenTrie:
    by_token: dict[int, list[tuple[int, ...]]] = {}
    for tail in tails:
        if tail:
            by_token.setdefault(tail[0], []).append(tail[1:])
    return TokenTrie(
        children={token: _grow(rest) for token, rest in by_token.items()},
        allowed=tuple(by_token),
        answers=len(tails),
    )


@dataclass(frozen=True)
class Request:
    """Request for one completion."""

    context: tuple[int, ...]
    """All token ids up to the answer."""
    sampling: Sampling
    seed: int
    """Seed of the conversation, independent of the batch."""
    draws_before: int = 0
    """Draws of the conversation's earlier answers, one per possible token."""
    answers: tuple[tuple[int, ...], ...] | None = None
    """Token ids of the legal answers without end of turn; None for a free answer."""
    adapter: str | None = None
    version: int | str | None = None
    """Required version of the weights; None for the newest."""
    conversation: int | None = None
    """Number of the conversation for its cache, in order of start; None caches nothing."""

    @property
    def longest(self) -> int:
        """Limit of the answer in tokens, with its end of turn."""
        if self.answers is None:
            return self.sampling.max_new_tokens
        return max(map(len, self.answers), default=0) + 1


@dataclass(frozen=True)
class Completion:
    """Sampled answer."""

    ids: tuple[int, ...]
    """At least one token; the last is a stop token if `ended`."""
    logprobs: tuple[float, ...]
    """Natural log-probability of each token."""
    ended: bool
    """False if `max_new_tokens` cut the answer."""
    model: ModelVersion
    allowed: tuple[tuple[int, ...], ...] | None = None
    """Allowed ids per token; None for a free answer."""


class Backend(Protocol):
    """Language model that returns completions of tokens."""

    name: str
    """Name in records."""
    chat: ChatFormat

    def complete(self, request: Request) -> Awaitable[Completion]:
        """Return an awaitable completion. Raises BackendError."""
        ...

    def release(self, conversation: int) -> None:
        """Release a conversation's cache."""


def check_room(request: Request, positions: int | None, name: str) -> None:
    """Raise BackendError if a request is empty or longer than `positions`."""
    length = len(request.context)
    if not length:
        raise BackendError("a request has an empty context; there is nothing to answer")
    if positions is not None and length + request.longest > positions:
        raise BackendError(
            f"a context of {length} tokens and an answer of up to {request.longest} exceed the "
            f"{positions} positions of {name}; play fewer turns, shorten the texts "
            "or lower max_new_tokens"
        )


def check_version(request: Request, here: ModelVersion) -> None:
    """Raise BackendError if a request requires another version than `here`."""
    if request.version is not None and request.version != here.version:
        raise BackendError(
            f"version {request.version} of the weights was asked for, and {here} is here: "
            "publish it before it is asked"
        )


QUIET = 10
"""Turns of the event loop without a new request before a batch is taken."""


class OfConversation(Protocol):
    """Request with a conversation."""

    @property
    def conversation(self) -> int | None: ...


Q = TypeVar("Q", bound=OfConversation)
A = TypeVar("A")


class Batcher(Generic[Q, A]):
    """Batches of requests, each taken when all coroutines wait.

    Batches do not depend on the clock: the same episodes give the same batches, in the order in
    which their conversations began.
    """

    def __init__(self, take: Callable[[Sequence[Q]], Sequence[A]]) -> None:
        """`take` returns a completion or an awaitable for each request, in order."""
        self._take = take
        self._waiting: WeakKeyDictionary[
            asyncio.AbstractEventLoop, list[tuple[Q, asyncio.Future[A]]]
        ] = WeakKeyDictionary()

    def submit(self, request: Q) -> asyncio.Future[A]:
        """Return a future with the result of the next batch."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[A] = loop.create_future()
        waiting = self._waiting.setdefault(loop, [])
        waiting.append((request, future))
        if len(waiting) == 1:
            loop.call_soon(self._turn, loop, 1, 0)
        return future

    def _turn(self, loop: asyncio.AbstractEventLoop, counted: int, quiet: int) -> None:
        waiting = self._waiting[loop]
        if len(waiting) > counted:
            quiet = 0
        if quiet < QUIET:
            loop.call_soon(self._turn, loop, len(waiting), quiet + 1)
            return
        del self._waiting[loop]
        wanted = [(request, future) for request, future in waiting if not future.cancelled()]
        wanted.sort(key=lambda one: -1 if one[0].conversation is None else one[0].conversation)
        try:
            taken = self._take([request for request, _ in wanted])
        except Exception as error:
            for _, future in wanted:
                future.set_exception(error)
            if isinstance(error, BackendError):
                return
            raise  # a fault of ours, which the event loop tells of too
        for (_, future), given in zip(wanted, taken, strict=True):
            future.set_result(given)
