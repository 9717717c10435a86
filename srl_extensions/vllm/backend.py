"""Sampling backend on vLLM servers: tokens and log-probabilities as sampled, in grouped calls.

Requests that wait at the same time and agree in model, sampling and legal answers form one call
with a list of prompts: one call per answer costs several times as much.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from srl_agents.episode import ModelVersion
from srl_agents.errors import BackendError
from srl_agents.event_loop import Batcher
from srl_agents.llm.backends import background_loop
from srl_agents.llm.backends.token_backend import (
    Completion,
    Request,
    TokenTrie,
    check_room,
    check_version,
    known_trie,
)
from srl_agents.llm.chat_format import ChatFormat
from srl_extensions.vllm.client import Sampled, VLLMClient
from srl_extensions.vllm.routing import RoutedTask, Router

PROMPTS_PER_CALL = 64
"""Limit of a call, so that servers share a large group, and a failed call concerns few episodes."""
PAUSE = 0.02
"""Seconds between two checks for open requests."""


@dataclass(frozen=True)
class Served:
    """Version of weights, and the name under which servers hold this version."""

    version: ModelVersion
    name: str


_Versioned = tuple[Request, Served]
_Answers = asyncio.Future[list[Sampled]]
"""Answers of one call."""


class VLLMBackend:
    """Sampling backend of a base model and its adapters on the servers of a router.

    A publisher calls `serve` for each new version. An answer contains the version that was current
    at its request; the weights of a whole model may be newer.
    """

    def __init__(
        self,
        router: Router[VLLMClient],
        tokenizer: Any,
        *,
        base: str,
        name: str | None = None,
        positions: int | None = None,
        vocabulary: int | None = None,
        stop_ids: Iterable[int] = (),
        chat_template_kwargs: Mapping[str, Any] | None = None,
    ):
        """Create a backend for a base that the router's servers hold as `base`.

        `name` is the model's name in records (None: `base`), `positions` the most tokens of a
        prompt with its answer (None: no limit), `vocabulary` the number of token ids (None: the
        tokenizer's), `stop_ids` more stop ids. Raises BackendError for an unusable chat template.
        """
        self.name, self.base = name or base, base
        self.tokenizer, self.positions = tokenizer, positions
        self.vocabulary = len(tokenizer) if vocabulary is None else vocabulary
        self.chat = ChatFormat(tokenizer, stop_ids, chat_template_kwargs)
        """Conversion of conversations to tokens."""
        self.stop_ids = self.chat.stop_ids
        self._router = router
        self._batcher: Batcher[_Versioned, tuple[_Answers, int]] = Batcher(
            self._calls, order=lambda versioned: versioned[0].conversation
        )
        # Publications and requests come from different threads.
        self._lock = threading.Lock()
        self._served: dict[str | None, Served] = {None: Served(ModelVersion(self.name), base)}
        self._open: Counter[str] = Counter()
        """Served name -> number of its open requests."""

    def serve(self, adapter: str | None, version: ModelVersion, served_as: str) -> None:
        """Switch new requests of `adapter` (None: the base) to the served name `served_as`.

        All servers must have loaded `served_as` (not checked). Answers contain `version`; open
        requests keep the version before.
        """
        with self._lock:
            self._served[adapter] = Served(version, served_as)

    async def drained(self, served_as: str) -> None:
        """Wait until this backend has no open requests for a served name, old or new."""
        while self._open[served_as]:
            await asyncio.sleep(PAUSE)

    async def complete(self, request: Request) -> Completion:
        """Return the completion; concurrent requests with equal settings share calls.

        Raises BackendError if the request does not fit or the call fails.
        """
        check_room(request, self.positions, self.name)
        trie = None
        if request.answers is not None:
            trie = known_trie(request.answers, self.chat.end_of_turn)
        async with self._counted(request) as served:
            answers, place = await self._batcher.submit((request, served))
            sampled = (await asyncio.shield(answers))[place]
        check_vocabulary(sampled, self.vocabulary, served.name)
        return completion(sampled, request, trie, served.version)

    def release(self, conversation: int) -> None:
        """Do nothing: the caches of the servers evict old conversations."""

    @asynccontextmanager
    async def _counted(self, request: Request) -> AsyncIterator[Served]:
        with self._lock:
            served = self._served.get(request.adapter)
            if served is None:
                raise BackendError(
                    f"{self.name} lacks the adapter {request.adapter!r}; it has "
                    f"{[*self._served][1:]}: publish the adapter first"
                )
            check_version(request, served.version)
            self._open[served.name] += 1
        try:
            yield served
        finally:
            with self._lock:
                self._open[served.name] -= 1
                if not self._open[served.name]:
                    del self._open[served.name]

    def _calls(self, batch: Sequence[_Versioned]) -> list[tuple[_Answers, int]]:
        groups: dict[Any, list[int]] = {}
        for index, (request, served) in enumerate(batch):
            alike = served, request.sampling, request.answers
            groups.setdefault(alike, []).append(index)
        places: dict[int, tuple[_Answers, int]] = {}
        for indices in groups.values():
            for start in range(0, len(indices), PROMPTS_PER_CALL):
                part = indices[start : start + PROMPTS_PER_CALL]
                calling = background_loop.submit(self._call([batch[n] for n in part]))
                # The requests share one future, so their next requests are made together again.
                answers = asyncio.wrap_future(calling)
                places.update((index, (answers, place)) for place, index in enumerate(part))
        return [places[index] for index in range(len(batch))]

    async def _call(self, group: Sequence[_Versioned]) -> list[Sampled]:
        first, served = group[0]
        answers, stop_ids = None, self.chat.stop_ids
        if first.answers is not None:
            answers = tuple((*answer, self.chat.end_of_turn) for answer in first.answers)
            stop_ids = frozenset({self.chat.end_of_turn})

        async def call(client: VLLMClient) -> list[Sampled]:
            return await client.complete(
                served.name,
                [request.context for request, _ in group],
                sampling=first.sampling,
                max_tokens=first.longest,
                stop_ids=stop_ids,
                answers=answers,
            )

        task = RoutedTask(
            owner=first.adapter or self.name,
            cost=sum(len(request.context) + first.longest for request, _ in group),
            # The conversations of a group stay together on the server that caches them.
            prefix=None if first.conversation is None else (served.name, first.conversation),
        )
        return await self._router.run(task, call)


def check_vocabulary(sampled: Sampled, vocabulary: int, served_as: str) -> None:
    """Raise BackendError, which names `served_as`, if a token id is not below `vocabulary`."""
    if (highest := max(sampled.ids)) >= vocabulary:
        raise BackendError(
            f"tokens of {served_as!r} must be at most {vocabulary - 1}, got {highest}: does the "
            "server hold the same base?"
        )


def completion(
    sampled: Sampled, request: Request, trie: TokenTrie | None, version: ModelVersion
) -> Completion:
    """Return a sampled answer as a Completion, with each token's legal ids if `trie` is not None.

    The log-probability is 0 at temperature 0, and for a token without a legal alternative. Raises
    BackendError if the answer is not a complete answer of the trie.
    """
    logprobs, allowed, ended = sampled.logprobs, None, sampled.ended
    if trie is not None:
        allowed = _allowed(sampled.ids, trie)
        logprobs = tuple(
            0.0 if len(choice) == 1 else value
            for choice, value in zip(allowed, logprobs, strict=True)
        )
    if request.sampling.temperature == 0:
        logprobs = (0.0,) * len(sampled.ids)
    return Completion(sampled.ids, logprobs, ended, version, allowed)


def _allowed(ids: Sequence[int], trie: TokenTrie) -> tuple[tuple[int, ...], ...]:
    allowed, node = [], trie
    for token in ids:
        allowed.append(node.allowed)
        if token not in node.children:
            raise BackendError(
                f"the server answered {list(ids)}, which is no legal answer: start it with the "
                "logits processor of srl_extensions/vllm/plugins"
            )
        node = node.children[token]
    if node.allowed:
        raise BackendError(f"the server cut the legal answer {list(ids)} before its end")
    return tuple(allowed)
