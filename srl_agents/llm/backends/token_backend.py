"""The contract between a text policy and whatever runs the model. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from srl_agents.episode import ModelVersion
from srl_agents.llm.answer_trie import AnswerTree
from srl_agents.llm.chat_format import ChatFormat
from srl_agents.llm.sampling import Sampling


@dataclass(frozen=True, eq=False)
class Request:
    """One completion to sample. Requests of one batch may differ in everything."""

    context: tuple[int, ...]
    """All token ids the model reads, from the conversation's first to the newest prompt's last."""
    sampling: Sampling
    rng: np.random.Generator
    """The row's own randomness: what is drawn does not depend on who else is in the batch."""
    answers: AnswerTree | None = None
    """The only answers that may be written; None leaves the answer free."""
    adapter: str | None = None
    """The adapter to answer with; None takes the model as it stands."""
    cache: object | None = None
    """What this conversation's last `Completion.cache` was. Only saves work, never changes it."""


@dataclass(frozen=True, eq=False)
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
    cache: object | None = None
    """To be handed back with the conversation's next request; None where nothing was kept."""


class Backend(Protocol):
    """A language model that can be asked for completions."""

    @property
    def name(self) -> str:
        """The model's name in records and reports."""
        ...

    @property
    def chat(self) -> ChatFormat:
        """How conversations become tokens for this model."""
        ...

    def complete(self, requests: Sequence[Request]) -> list[Completion]:
        """One completion per request, in order. Raises BackendError with the cause."""
        ...
