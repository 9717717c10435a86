"""Protocol of backends that return tokens and log-probabilities, and the batching of requests.

This module does not import torch.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from srl_agents.episode import ModelVersion
from srl_agents.errors import BackendError
from srl_agents.llm.chat_format import ChatFormat
from srl_agents.llm.sampling import Sampling


@dataclass(frozen=True, eq=False)
class TokenTrie:
    """Node of a trie of legal answers; a leaf has no children."""

    children: Mapping[int, TokenTrie]
    """Next token id -> child, in the order of the answers."""
    allowed: tuple[int, ...]
    """Keys of `children`."""
    answers: int
    """Number of legal answers in this subtree."""


def answer_trie(answers: Sequence[Sequence[int]], end_of_turn: int) -> TokenTrie:
    """Return the trie of the answers' token ids, each followed by `end_of_turn`.

    Raises ValueError if there is no answer, an answer is empty, or two answers are equal.
    """
    sequences = [tuple(answer) for answer in answers]
    if not sequences or not all(sequences) or len(set(sequences)) < len(sequences):
        raise ValueError(f"legal answers must have tokens and differ, got {sequences}")
    return _grow([(*sequence, end_of_turn) for sequence in sequences])


known_trie = functools.lru_cache(maxsize=1024)(answer_trie)
"""Cached `answer_trie`; the answers must be tuples."""


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
    """All token ids before the answer."""
    sampling: Sampling
    seed: int
    """Seed of the random numbers of the conversation's answers."""
    draws_before: int = 0
    """Number of random draws of the conversation's earlier answers: the sum of their `longest`."""
    answers: tuple[tuple[int, ...], ...] | None = None
    """Token ids of the legal answers, without end of turn; None for an unconstrained answer."""
    adapter: str | None = None
    """Name of the LoRA adapter; None for the base model."""
    version: int | str | None = None
    """Required version of the weights; None for the newest."""
    conversation: int | None = None
    """Id of the conversation, for its key-value cache; None caches nothing."""

    @property
    def longest(self) -> int:
        """Maximum length of the answer in tokens, with its end of turn."""
        if self.answers is None:
            return self.sampling.max_new_tokens
        return max(map(len, self.answers), default=0) + 1


@dataclass(frozen=True)
class Completion:
    """Sampled answer of a backend."""

    ids: tuple[int, ...]
    """Sampled token ids, at least one; the last is a stop token if `ended` is True."""
    logprobs: tuple[float, ...]
    """Natural log-probability of each token in `ids`."""
    ended: bool
    """False if `max_new_tokens` cut the answer."""
    model: ModelVersion
    """Weights that sampled the answer."""
    allowed: tuple[tuple[int, ...], ...] | None = None
    """Allowed token ids at each token; None for an unconstrained answer."""


class Backend(Protocol):
    """Language model that returns tokens and log-probabilities."""

    name: str
    """Name in records."""
    chat: ChatFormat
    """Chat template and tokenizer of the model."""

    def complete(self, request: Request) -> Awaitable[Completion]:
        """Return an awaitable of one sampled completion.

        Requests that are pending at the same time may be sampled in one batch. The result must not
        depend on the other requests of the batch.

        Raises:
            BackendError: The request is not valid, or the model failed. May also be raised by the
                awaitable.
        """
        ...

    def release(self, conversation: int) -> None:
        """Free the cache, if any, of a conversation that is over: a `Request.conversation`."""


def check_room(request: Request, positions: int | None, name: str) -> None:
    """Raise BackendError if the context is empty, or it and the longest answer exceed `positions`.

    `positions` is the context length of the model `name` in tokens; None for no limit.
    """
    length = len(request.context)
    if not length:
        raise BackendError("the context of a request must have at least one token, got none")
    if positions is not None and length + request.longest > positions:
        raise BackendError(
            f"a context of {length} tokens and an answer of up to {request.longest} exceed the "
            f"{positions} positions of {name}; play fewer turns, shorten the texts, "
            "lower max_new_tokens, or set models.context to window"
        )


def check_version(request: Request, loaded: ModelVersion) -> None:
    """Raise BackendError if the request requires another version than `loaded`."""
    if request.version is not None and request.version != loaded.version:
        raise BackendError(
            f"the version of a request must be that of the loaded weights ({loaded}), got "
            f"{request.version}: publish this version first"
        )
