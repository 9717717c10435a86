"""Protocol of token backends: requests and completions as tokens. No torch."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Protocol

from srl_agents.episode import ModelVersion
from srl_agents.errors import BackendError
from srl_agents.llm.chat_format import ChatFormat
from srl_agents.llm.sampling import Sampling


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
