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
class AnswerTrie:
    """The tokens that may come next, and what may follow each; a leaf allows nothing more."""

    children: Mapping[int, AnswerTrie]
    """Next token -> what may follow it, in the order of the answers."""
    allowed: tuple[int, ...]
    """The keys of `children`."""
    answers: int
    """How many legal answers go on from here."""
    longest: int
    """Tokens to the end of the longest of them, its end of turn included."""


def answer_trie(answers: Sequence[Sequence[int]], end_of_turn: int) -> AnswerTrie:
    """The trie of the answers' token ids, each closed by `end_of_turn`.

    An answer may take several tokens, and one answer may be the beginning of another: the end of
    turn is then one of the choices. Raises ValueError where there is no answer, an answer has no
    tokens, or two answers are the same tokens.
    """
    if not answers:
        raise ValueError("constrained choice needs at least one legal answer; got none")
    sequences = [tuple(answer) for answer in answers]
    for index, sequence in enumerate(sequences):
        if not sequence:
            raise ValueError(f"legal answer number {index} has no tokens; answers need words")
        if sequences.index(sequence) != index:
            raise ValueError(f"legal answer number {index} repeats the tokens {list(sequence)}")
    return _grow([(*sequence, end_of_turn) for sequence in sequences])


known_trie = functools.lru_cache(maxsize=1024)(answer_trie)
"""`answer_trie` of tuples, remembered: agents choose among the same answers turn after turn."""


def _grow(tails: Sequence[tuple[int, ...]]) -> AnswerTrie:
    by_token: dict[int, list[tuple[int, ...]]] = {}
    for tail in tails:
        if tail:
            by_token.setdefault(tail[0], []).append(tail[1:])
    return AnswerTrie(
        children={token: _grow(rest) for token, rest in by_token.items()},
        allowed=tuple(by_token),
        answers=len(tails),
        longest=max(len(tail) for tail in tails),
    )


@dataclass(frozen=True)
class Request:
    """One completion to sample: plain data, which may travel to another process."""

    context: tuple[int, ...]
    """All token ids the model reads, from the conversation's first to the newest prompt's last."""
    sampling: Sampling
    seed: int
    """Where the conversation's randomness comes from: what is drawn does not depend on who else
    is in the batch."""
    draws_before: int = 0
    """Draws that the conversation's earlier answers had from the seed's stream, one per token that
    they might have taken; this answer's come after them."""
    answers: tuple[tuple[int, ...], ...] | None = None
    """The token ids of the only answers that may be written, without their end of turn; None leaves
    the answer free."""
    adapter: str | None = None
    """The adapter to answer with; None takes the model as it stands."""
    version: int | str | None = None
    """The version of the weights that must answer; None takes the newest."""
    conversation: int | None = None
    """Which conversation it goes on with, so that what was read of it may be kept: a number that
    grows with the order in which a process's conversations began. None keeps nothing."""

    @property
    def longest(self) -> int:
        """Tokens that the answer may take, its end of turn included."""
        if self.answers is None:
            return self.sampling.max_new_tokens
        return max(map(len, self.answers), default=0) + 1


@dataclass(frozen=True)
class Completion:
    """What was sampled for one request."""

    ids: tuple[int, ...]
    """At least one token; the last is a stop token where `ended`."""
    logprobs: tuple[float, ...]
    """Natural log-probability of each token under the distribution it was drawn from."""
    ended: bool
    """False where `max_new_tokens` cut the answer."""
    model: ModelVersion
    """Who sampled."""
    allowed: tuple[tuple[int, ...], ...] | None = None
    """Per token, the ids it was chosen from; None for a free answer."""


class Backend(Protocol):
    """A language model that can be asked for completions."""

    name: str
    """The model's name in records and reports."""
    chat: ChatFormat
    """How conversations become tokens for this model."""

    def complete(self, request: Request) -> Awaitable[Completion]:
        """The completion, once it is awaited. Raises BackendError with the cause."""
        ...

    def release(self, conversation: int) -> None:
        """The conversation is over: what was kept of it may go."""
        ...


def check_room(request: Request, positions: int | None, name: str) -> None:
    """Raise BackendError for a request that the model `name` cannot answer within its `positions`
    (the longest context in tokens; None where there is no limit)."""
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
    """Raise BackendError for a request of another version than the one that is here."""
    if request.version is not None and request.version != here.version:
        raise BackendError(
            f"version {request.version} of the weights was asked for, and {here} is here: "
            "publish it before it is asked"
        )


QUIET = 10
"""Turns of the event loop without another request until a batch is taken: more than an episode
takes from its answers to its next requests."""


class OfConversation(Protocol):
    """Request that belongs to a conversation, as Request does."""

    @property
    def conversation(self) -> int | None:
        """Number of the conversation."""
        ...


Q = TypeVar("Q", bound=OfConversation)
A = TypeVar("A")


class Batcher(Generic[Q, A]):
    """Gathers requests until every coroutine that could make another one waits.

    That does not depend on the clock: the same episodes give the same batches, in the order in
    which their conversations began. Nothing else runs in the event loop while a batch is taken.
    """

    def __init__(self, take: Callable[[Sequence[Q]], Sequence[A]]) -> None:
        """`take` gives something for each request, in order: its completion, from a model in this
        process; what to await, where answers come over a network."""
        self._take = take
        self._waiting: WeakKeyDictionary[
            asyncio.AbstractEventLoop, list[tuple[Q, asyncio.Future[A]]]
        ] = WeakKeyDictionary()

    def submit(self, request: Q) -> asyncio.Future[A]:
        """What is given for the request, from the next batch of the running event loop."""
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
