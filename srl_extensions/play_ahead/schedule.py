"""Play ahead: rounds are played while models learn from those before, each at its own pace.

Whoever calls `next_round` coordinates: starts rounds, lets them enter in their order, tells of
them. A thread plays: every game of all rounds under way is a coroutine in its event loop. Each
model learns in a thread of its own, from the samples of every round in turn; where the update
strategy brings the models together, one thread updates them all.

Back-pressure is the bound on staleness alone. A model that makes u updates from a round, and whose
samples may be s updates old (`updates.max_staleness`), has room for

    max(0, floor((s + 1) / u) - 1)

rounds: a round begins once the model has learned from all but so many of those before it. The last
of its samples is then at most s updates old when it is learned from. Without room the rounds are
those of the sequential loop, to the bit. A model that has fallen behind the fastest by more than
its room holds nobody back until it has caught up; samples that got too old for it are dropped and
counted.
"""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, field

from srl_agents.episode import Episode
from srl_agents.event_loop import LoopThread
from srl_train.config.learning.updates import INDEPENDENT
from srl_train.config.run import RunConfig
from srl_train.errors import TrainingError
from srl_train.metrics.activity import PLAY, Activity
from srl_train.pools import growth_is_due, load_opponents
from srl_train.round import (
    PlayedRound,
    RoundPlan,
    RoundResult,
    finish,
    learn,
    plan_round,
    prepare,
)
from srl_train.run import UpdateStats
from srl_train.schedule import ScheduleContext


@dataclass
class Pace:
    """Models that learn in one thread, and how far they have come."""

    models: tuple[str, ...]
    room: int
    """Rounds that may be played ahead of them."""
    learned: int
    """Rounds that they have learned from."""
    last: dict[str, UpdateStats]
    """Model -> what was told of it last."""
    waiting: deque[PlayedRound] = field(default_factory=deque)
    busy: bool = False
    behind: bool = False
    """Whether they have fallen behind, and hold nobody back."""
    updates: dict[int, dict[str, UpdateStats]] = field(default_factory=dict)
    """Round -> what they learned from it, until it is told."""
    learning: threading.Lock = field(default_factory=threading.Lock)
    """Held while they learn."""


class PlayAhead:
    """The rounds of a run from its next one on, played ahead of what is learned.

    Between two calls, rounds under way are played on and learned from; none begins.
    """

    def __init__(self, context: ScheduleContext) -> None:
        self._run = run = context.run
        self._activity = Activity(context.record, run.next_round)
        self._pauses_after = context.saves_after
        self._told = self._entered = self._started = run.next_round
        self._playing: dict[int, Future[list[Episode]]] = {}
        self._played: dict[int, PlayedRound] = {}
        self._spoilt: BaseException | None = None
        """Why the next round to enter cannot: it is raised once all before it are told."""
        bound = run.config.engine.in_flight
        self._in_flight = None if bound is None else asyncio.Semaphore(bound)
        self._paces = [
            Pace(
                models,
                min(room(run.config, m, run.matchmaking.most_held(m)) for m in models),
                run.next_round,
                {
                    m: UpdateStats(version=run.versions[m], dropped=run.buffers[m].dropped.copy())
                    for m in models
                },
            )
            for models in learning_together(run.config, tuple(run.learners))
        ]
        self._moved = threading.Condition()
        """Guards all that threads share; told of every change."""
        self._news = False
        self._paused = False
        """Whether those that are behind wait, like the others, for the state to be looked at."""
        self._closing = False
        self._play = LoopThread("play")
        self._threads = [LoopThread(" ".join(pace.models)) for pace in self._paces]
        self._learning = [
            thread.submit(self._learn(pace))
            for thread, pace in zip(self._threads, self._paces, strict=True)
        ]
        for learning in self._learning:
            learning.add_done_callback(self._tell)

    @property
    def ahead(self) -> bool:
        """See Rounds."""
        return self._entered > self._told

    def next_round(self) -> RoundResult:
        """The next round, once every model that keeps up has learned from it; of the run's last
        round, once all have.

        Raises what playing or learning raised; everything has come to its end then.
        """
        try:
            number = self._told
            self._pause(False)
            while not self._is_learned(number):
                self._start_rounds()
                if not self._enter_round():
                    self._wait()
            return self._result(number)
        except BaseException:
            self.close()
            raise

    def settle(self) -> list[RoundResult]:
        """The rounds that have entered and are not told of yet, once they are learned from.

        Nothing is learned after that until `next_round` is called: the run's state is whole, and
        that before the next round. Raises as `next_round` does.
        """
        try:
            self._pause(True)
            while not self._is_settled():
                self._wait()
            return [self._result(number) for number in range(self._told, self._entered)]
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End all threads: games under way are cancelled, models end the rounds they learn from."""
        with self._moved:
            if self._closing:
                return
            self._closing = True
            self._moved.notify_all()
        for thread in (self._play, *self._threads):
            thread.close()
        self._activity.close()

    # ---- play ------------------------------------------------------------------------------------

    def _start_rounds(self) -> None:
        while self._may_start(self._started):
            number = self._started
            with ExitStack() as between_updates:
                if growth_is_due(self._run, number):
                    for pace in self._paces:
                        between_updates.enter_context(pace.learning)
                plan = plan_round(self._run, number)
            load_opponents(self._run, plan.opponents[0])  # RunConfig: the same in all groups
            self._playing[number] = playing = self._play.submit(self._rollout(number, plan))
            playing.add_done_callback(self._tell)
            self._started += 1

    def _may_start(self, number: int) -> bool:
        if number >= self._run.config.rounds or self._spoilt is not None:
            return False
        if self._run.pools and self._entered < number:
            # The next opponent of a pool depends on all results.
            return False
        with self._moved:
            return all(number - own.learned <= own.room for own in self._paces if not own.behind)

    async def _rollout(self, number: int, plan: RoundPlan) -> list[Episode]:
        span = self._activity.begin(PLAY, number)
        try:
            whole = plan.part(range(len(plan.games)))
            return await self._run.engine.play_async(whole, self._in_flight)
        finally:
            self._activity.end(span)

    def _enter_round(self) -> bool:
        """Hand the next round on to the models, if its games are over; returns whether it was."""
        number = self._entered
        playing = self._playing.get(number)
        if playing is None or not playing.done():
            return False
        if any(map(self._pauses_after, range(self._told, number))):
            return False
        self._spoilt = self._spoilt or playing.exception() or self._too_many_failed(playing)
        if self._spoilt is not None:
            if self._told < number:
                return False
            raise self._spoilt
        played = prepare(self._run, number, self._playing.pop(number).result())
        with self._moved:
            self._played[number] = played
            self._entered += 1
            for pace in self._paces:
                pace.waiting.append(played)
            self._moved.notify_all()
        return True

    def _too_many_failed(self, playing: Future[list[Episode]]) -> TrainingError | None:
        try:
            self._run.check_failures(playing.result())
        except TrainingError as error:
            return error
        return None

    # ---- learning --------------------------------------------------------------------------------

    async def _learn(self, pace: Pace) -> None:
        """All that a thread of learning does."""
        while (played := self._next_for(pace)) is not None:
            with pace.learning:
                spans = [self._activity.begin(model, played.number) for model in pace.models]
                updates = learn(self._run, played, pace.models)
                for span in spans:
                    self._activity.end(span)
            with self._moved:
                pace.busy = False
                pace.learned += 1
                pace.updates[played.number] = updates
                self._compare_paces()
            self._tell()

    def _raise_failure(self) -> None:
        for learning in self._learning:
            if learning.done():
                learning.result()

    def _next_for(self, pace: Pace) -> PlayedRound | None:
        with self._moved:
            self._moved.wait_for(
                lambda: self._closing or (pace.waiting and not (self._paused and pace.behind))
            )
            if self._closing:
                return None
            pace.busy = True
            return pace.waiting.popleft()

    def _compare_paces(self) -> None:
        front = max(pace.learned for pace in self._paces)
        for pace in self._paces:
            if pace.room and front - pace.learned > pace.room:
                pace.behind = True
            elif pace.learned == front:
                pace.behind = False

    # ---- what both bring about -------------------------------------------------------------------

    def _is_learned(self, number: int) -> bool:
        last = number == self._run.config.rounds - 1
        with self._moved:
            self._news = False
            self._raise_failure()
            if self._entered <= number:
                return False
            if not all(own.learned > number for own in self._paces if last or not own.behind):
                return False
        if last or not self._pauses_after(number):
            return True
        self._pause(True)
        return self._is_settled()

    def _is_settled(self) -> bool:
        with self._moved:
            self._news = False
            self._raise_failure()
            if any(pace.busy or (pace.waiting and not pace.behind) for pace in self._paces):
                return False
            for pace in self._paces:
                self._shelve(pace)
            return True

    def _shelve(self, pace: Pace) -> None:
        """Put what waits for a model that is behind into its buffer, which checkpoints hold."""
        for place, played in enumerate(pace.waiting):
            for model in pace.models:
                self._run.buffers[model].add(played.samples[model])
            pace.waiting[place] = dataclasses.replace(
                played, samples=dict.fromkeys(pace.models, ())
            )

    def _result(self, number: int) -> RoundResult:
        with self._moved:
            for pace in self._paces:
                ready = [pace.updates.pop(n) for n in sorted(pace.updates) if n <= number]
                for model in pace.models:
                    told = in_all(pace.last[model], [updates[model] for updates in ready])
                    pace.last[model] = told
            updates = {m: own for pace in self._paces for m, own in pace.last.items()}
            self._told += 1
        return finish(self._run, self._played.pop(number), updates, self._activity.seconds())

    def _pause(self, paused: bool) -> None:
        with self._moved:
            self._paused = paused
            self._moved.notify_all()

    def _wait(self) -> None:
        with self._moved:
            self._moved.wait_for(lambda: self._news)

    def _tell(self, _: object = None) -> None:
        with self._moved:
            self._news = True
            self._moved.notify_all()


def learning_together(config: RunConfig, models: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The models by who learns together: each on its own where the strategy exchanges nothing."""
    return [(m,) for m in models] if config.updates.strategy == INDEPENDENT else [models]


def room(config: RunConfig, model: str, agents: int) -> int:
    """Rounds that may be played ahead of a model that holds so many agents of a game at most; see
    the module."""
    per_round = agents * config.rollout.episodes
    updates = -(-per_round // config.sample_budget.get(model, per_round))
    # Weights that play may be as old as this before an update.
    # Weights that play may be as old as this before an update.
    bound = config.updates.max_staleness - config.backend.publication_lag
    return max(0, (bound + 1) // updates - 1)


def in_all(last: UpdateStats, parts: Sequence[UpdateStats]) -> UpdateStats:
    """What the rounds' updates came to together, after those that were told of `last`."""
    whole = UpdateStats(version=last.version, dropped=last.dropped)
    for part in parts:
        whole.samples += part.samples
        whole.updates += part.updates
        whole.steps_left_out += part.steps_left_out
        whole.staleness += part.staleness
        whole.age += part.age
        whole.metrics = part.metrics or whole.metrics
        whole.weight_change += part.weight_change
        whole.sent += part.sent
        whole.received += part.received
        whole.version, whole.dropped = part.version, part.dropped
    return whole
