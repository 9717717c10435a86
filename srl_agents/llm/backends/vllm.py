"""Backend for models that vLLM serves: tokens and log-probabilities as sampled, in grouped calls.

Requests that wait at the same time and agree in model, sampling and legal answers go out as one
call with a list of prompts, many calls at once: one call per answer costs several times as much.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from srl_agents.episode import ModelVersion
from srl_agents.errors import BackendError
from srl_agents.llm.answer_trie import AnswerTrie, known_trie
from srl_agents.llm.backends import background_loop
from srl_agents.llm.backends.batching import Batcher
from srl_agents.llm.backends.retrying import RejectedError
from srl_agents.llm.backends.token_backend import (
    Completion,
    Request,
    check_room,
    check_version,
)
from srl_agents.llm.chat_format import ChatFormat
from srl_agents.serving.endpoint import Endpoint, Sampled, WrongModel
from srl_agents.serving.scheduler import Scheduler
from srl_agents.serving.scheduling.requests import Task

PROMPTS_PER_CALL = 64
"""Prompts in one call at most: as many as a server works on at once, so that several servers share
a large group, and a call that fails is of few episodes."""


@dataclass(frozen=True)
class Served:
    """Weights that a server has, and under which name."""

    version: ModelVersion
    name: str


@dataclass(frozen=True)
class _Asked:
    """A request, and the weights that were current when it came."""

    request: Request
    served: Served

    @property
    def conversation(self) -> int | None:
        return self.request.conversation


class VLLMBackend:
    """Samples from a base model and its adapters, in whichever server the scheduler chooses.

    What an adapter's name means is told by `serve`, at every publication: an answer is marked with
    the version that was current when it was asked for, and comes from that version.
    """

    def __init__(
        self,
        scheduler: Scheduler[Endpoint],
        tokenizer: Any,
        *,
        base: str,
        name: str | None = None,
        seeded: bool = False,
        positions: int | None = None,
        vocabulary: int | None = None,
        stop_ids: Iterable[int] = (),
        chat_template_kwargs: Mapping[str, Any] | None = None,
    ):
        """Ask for what the servers have as `base`, with the model's own `tokenizer`.

        `name` is shown in records. With `seeded` every request is a call of its own with a seed
        from the conversation's, so that an answer does not depend on who else asks; without, calls
        are grouped, and servers draw as they like. `positions` is the longest context in tokens,
        `vocabulary` how many token ids the model has (None: as many as its tokenizer), `stop_ids`
        are further ids that end an answer, and `chat_template_kwargs` go to the tokenizer's chat
        template.
        """
        self.name = name or base
        self.base = base
        """What servers call it."""
        self.tokenizer = tokenizer
        self.positions = positions
        self.vocabulary = len(tokenizer) if vocabulary is None else vocabulary
        self.refused = 0
        """Answers that came from another model than the one that was asked, and were not used."""
        self._scheduler, self._seeded = scheduler, seeded
        self.chat = ChatFormat(tokenizer, stop_ids, chat_template_kwargs)
        """How conversations become tokens for this model."""
        self.stop_ids = self.chat.stop_ids
        """What ends an answer."""
        self._batcher: Batcher[_Asked, tuple[_Call, int]] = Batcher(self._calls)
        # Publications come from other threads than requests.
        self._lock = threading.Lock()
        self._served: dict[str | None, Served] = {None: Served(ModelVersion(self.name), base)}
        self._under_way: dict[str, set[Future[None]]] = {}
        self._resumed: Future[None] | None = None

    def serve(self, adapter: str | None, version: ModelVersion, served_as: str) -> None:
        """From now on `adapter` (None: the base) means this version, which every server of the base
        has under the name `served_as`. Requests under way end with what they were asked of."""
        with self._lock:
            self._served[adapter] = Served(version, served_as)

    def withdraw(self, adapter: str | None) -> None:
        """From now on nobody answers for `adapter` (None: the base), until it is served again."""
        with self._lock:
            self._served.pop(adapter, None)

    def identity(self, adapter: str | None = None) -> ModelVersion:
        """The weights that answer now. Raises BackendError for an adapter that is not served."""
        return self._current(adapter).version

    async def drained(self, served_as: str) -> None:
        """Wait until no request under that served name is under way any more."""
        while waiting := self._waiting_for(served_as):
            await asyncio.wait([asyncio.wrap_future(answered) for answered in waiting])

    @asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """Within, no request is under way: those that come wait, and those before have ended."""
        resumed: Future[None] = Future()
        with self._lock:
            self._resumed = resumed
            names = list(self._under_way)
        try:
            for name in names:
                await self.drained(name)
            yield
        finally:
            with self._lock:
                self._resumed = None
            resumed.set_result(None)

    async def complete(self, request: Request) -> Completion:
        """The completion, asked for in one call with what else waits for the same weights.

        Raises BackendError for a context that leaves no room for the answer, for an adapter or
        version of the weights that is not served, for an answer in tokens that the model does not
        have, and where the call fails in the end.
        """
        check_room(request, self.positions, self.name)
        trie = None
        if request.answers is not None:
            trie = known_trie(request.answers, self.chat.end_of_turn)
        async with self._counted(request) as served:
            if trie is not None and trie.answers == 1:
                [answer] = request.answers or ()
                ids = (*answer, self.chat.end_of_turn)
                sampled = Sampled(ids, (0.0,) * len(ids), ended=True)
            else:
                call, place = await self._batcher.submit(_Asked(request, served))
                sampled = await call.answer(place)
        check_vocabulary(sampled, self.vocabulary, served.name)
        return completion(sampled, request, trie, served.version)

    def release(self, conversation: int) -> None:
        """The conversation is over; the servers' caches forget by themselves."""

    def _current(self, adapter: str | None) -> Served:
        if adapter not in self._served:
            there = [name for name in self._served if name is not None]
            raise BackendError(
                f"{self.name} lacks the adapter {adapter!r}; it has {there or 'none'}: publish it "
                "before it is asked"
                if adapter is not None
                else f"{self.name} was not published whole: publish it before it is asked"
            )
        return self._served[adapter]

    @asynccontextmanager
    async def _counted(self, request: Request) -> AsyncIterator[Served]:
        """The weights that a request is for; it counts as under way within."""
        answered: Future[None] = Future()
        while True:
            with self._lock:
                resumed = self._resumed
                if resumed is None:
                    served = self._current(request.adapter)
                    check_version(request, served.version)
                    self._under_way.setdefault(served.name, set()).add(answered)
                    break
            await asyncio.wrap_future(resumed)
        try:
            yield served
        finally:
            with self._lock:
                self._under_way[served.name].remove(answered)
            answered.set_result(None)

    def _waiting_for(self, served_as: str) -> list[Future[None]]:
        with self._lock:
            waiting = self._under_way.get(served_as, set())
            if not waiting:
                self._under_way.pop(served_as, None)
            return list(waiting)

    def _calls(self, batch: Sequence[_Asked]) -> list[tuple[_Call, int]]:
        """Per request, the call that it is part of, and its place there."""
        groups: dict[Any, list[int]] = {}
        for index, asked in enumerate(batch):
            request = asked.request
            own = index if self._seeded else (asked.served, request.sampling, request.answers)
            groups.setdefault(own, []).append(index)
        places: dict[int, tuple[_Call, int]] = {}
        for indices in groups.values():
            for start in range(0, len(indices), PROMPTS_PER_CALL):
                some = indices[start : start + PROMPTS_PER_CALL]
                answers = background_loop.submit(self._answers([batch[n] for n in some]))
                call = _Call(answers, len(some))
                places.update((index, (call, place)) for place, index in enumerate(some))
        return [places[index] for index in range(len(batch))]

    async def _answers(self, group: Sequence[_Asked]) -> list[Sampled | BaseException]:
        """What comes for requests that agree in all but their context: one call, or one for each
        where the server refuses a request among them."""
        try:
            return [*await self._ask(group)]
        except RejectedError as error:
            if len(group) == 1:
                return [error]
        alone = await asyncio.gather(
            *(self._answers([asked]) for asked in group), return_exceptions=True
        )
        return [one if isinstance(one, BaseException) else one[0] for one in alone]

    async def _ask(self, group: Sequence[_Asked]) -> list[Sampled]:
        """One call."""
        first, served = group[0].request, group[0].served
        answers, stop_ids = None, self.chat.stop_ids
        if first.answers is not None:
            answers = tuple((*answer, self.chat.end_of_turn) for answer in first.answers)
            stop_ids = frozenset({self.chat.end_of_turn})

        async def call(endpoint: Endpoint) -> list[Sampled]:
            return await endpoint.complete(
                served.name,
                [asked.request.context for asked in group],
                sampling=first.sampling,
                max_tokens=first.longest,
                stop_ids=stop_ids,
                answers=answers,
                seed=seed_of(first) if self._seeded else None,
            )

        task = Task(
            owner=first.adapter or self.name,
            cost=sum(len(asked.request.context) + first.longest for asked in group),
            base=self.base,
            # A group's conversations stay together, and what was read of them stays in one server.
            prefix=None if first.conversation is None else (served.name, first.conversation),
        )
        try:
            return await self._scheduler.run(task, call)
        except WrongModel:
            with self._lock:
                self.refused += len(group)
            raise


class _Call:
    """A call under way for several requests of one event loop."""

    def __init__(self, running: Future[list[Sampled | BaseException]], requests: int):
        self._answers = asyncio.wrap_future(running)
        self._requests = requests

    async def answer(self, place: int) -> Sampled:
        """What came for one of them; the call is given up when all of them were cancelled."""
        try:
            answers = await asyncio.shield(self._answers)
        except asyncio.CancelledError:
            self._requests -= 1
            if not self._requests:
                self._answers.cancel()
            raise
        answer = answers[place]
        if isinstance(answer, BaseException):
            raise answer
        return answer


def seed_of(request: Request) -> int:
    """The request's own seed, 31 bits: what every API's integers hold."""
    words = np.random.SeedSequence([request.seed, request.draws_before]).generate_state(1)
    return int(words[0] >> 1)


def check_vocabulary(sampled: Sampled, vocabulary: int, served_as: str) -> None:
    """Raise BackendError for token ids that a model of so many does not have."""
    if (highest := max(sampled.ids)) >= vocabulary:
        raise BackendError(
            f"the server answered with token {highest} as {served_as!r}, whose model has ids up to "
            f"{vocabulary - 1}: does it serve the same base?"
        )


def completion(
    sampled: Sampled, request: Request, trie: AnswerTrie | None, version: ModelVersion
) -> Completion:
    """The completion as every backend gives it.

    At temperature 0, and where only one token was allowed, there was nothing to draw: the
    log-probability is 0. Raises BackendError for tokens that were not allowed.
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


def _allowed(ids: Sequence[int], trie: AnswerTrie) -> tuple[tuple[int, ...], ...]:
    """Per token, the ids it was chosen from."""
    allowed, node = [], trie
    for token in ids:
        allowed.append(node.allowed)
        if token not in node.children:
            raise BackendError(
                f"the server answered {list(ids)}, which is no legal answer: start it with the "
                "logits processor of srl_agents/serving/plugins"
            )
        node = node.children[token]
    if node.allowed:
        raise BackendError(f"the server cut the legal answer {list(ids)} before its end")
    return tuple(allowed)
