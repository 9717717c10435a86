"""Play ahead: rounds are played while models learn from earlier rounds, each at its own pace.

The caller of `next_round` coordinates: it starts rounds, and hands completed ones to the models in
order. One thread plays the episodes of all current rounds in one event loop. Each model learns in
its own thread; if the update strategy exchanges weights or gradients, all models share one thread.

Only `updates.max_staleness` limits how far play is ahead. A model that makes u updates from a
round, and whose samples may be s updates old, has room for

    max(0, floor((s + 1) / u) - 1)

rounds: at the start of a round, the model has trained on all earlier rounds except that number. Its
last sample is then at most s updates old. Without room, the rounds are equal to the sequential
loop to the bit. A model that is more than its room behind the fastest model delays no round until
it has caught up; samples that are too old for it by then are dropped and counted.
"""

from __future__ import annotations

import asyncio
import dataclasses
import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, field

from srl_agents.episode import Episode
from srl_agents.event_loop import LoopThread
from srl_train.config.learning.updates import INDEPENDENT
from srl_train.config.run import RunConfig
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


class Activity:
    """Seconds of rollouts (`rollout`), learning (`train`) and both (`overlap`). Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: Counter[str] = Counter()
        self._since = time.perf_counter()
        self._seconds = dict.fromkeys(("rollout", "train", "overlap"), 0.0)

    def change(self, kind: str, by: int) -> None:
        """Start (1) or end (-1) a rollout or an update."""
        with self._lock:
            self._count()
            self._running[kind] += by

    def seconds(self) -> dict[str, float]:
        """Return the seconds since the last call."""
        with self._lock:
            self._count()
            counted, self._seconds = self._seconds, dict.fromkeys(self._seconds, 0.0)
            return counted

    def _count(self) -> None:
        now = time.perf_counter()
        passed, self._since = now - self._since, now
        busy = [kind for kind, running in self._running.items() if running]
        for kind in (*busy, *(["overlap"] if len(busy) == 2 else [])):
            self._seconds[kind] += passed


@dataclass
class Pace:
    """Progress of the models that learn in one thread."""

    models: tuple[str, ...]
    room: int
    """Number of rounds that may be played ahead of the models."""
    learned: int
    """Number of rounds that the models have trained on."""
    latest: dict[str, UpdateStats]
    """Model to the statistics in the latest returned round."""
    waiting: deque[PlayedRound] = field(default_factory=deque)
    busy: bool = False
    behind: bool = False
    """True if the models delay no round."""
    updates: dict[int, dict[str, UpdateStats]] = field(default_factory=dict)
    """Round to its statistics, until they are returned."""
    learning: threading.Lock = field(default_factory=threading.Lock)
    """Locked while the models learn."""


class PlayAhead:
    """Schedule of rounds that are played ahead; see `schedule.Schedule`.

    Between two calls, current rounds continue and no round starts.
    """

    def __init__(self, context: ScheduleContext) -> None:
        self._run = run = context.run
        self._activity = Activity()
        self._saves_after = context.saves_after
        self._returned = self._prepared = self._started = run.next_round
        self._playing: dict[int, Future[list[Episode]]] = {}
        self._played: dict[int, PlayedRound] = {}
        self._failed = False
        """True if a round failed; its error is raised after all rounds before it were returned."""
        bound = run.config.engine.in_flight
        self._in_flight = None if bound is None else asyncio.Semaphore(bound)
        models = tuple(run.learners)
        independent = run.config.updates.strategy == INDEPENDENT
        self._paces = [
            self._pace(own) for own in ([(m,) for m in models] if independent else [models])
        ]
        self._changed = threading.Condition()
        """Protects everything that threads share."""
        self._has_news = False
        self._paused = False
        """True if models that are behind wait too, because the run's state is read."""
        self._closing = False
        self._play_thread = LoopThread("play")
        self._threads = [LoopThread(" ".join(pace.models)) for pace in self._paces]
        self._learning = [
            thread.submit(self._learn(pace))
            for thread, pace in zip(self._threads, self._paces, strict=True)
        ]
        for learning in self._learning:
            learning.add_done_callback(self._notify)

    def _pace(self, models: tuple[str, ...]) -> Pace:
        run = self._run
        latest = {
            m: UpdateStats(version=run.versions[m], dropped=run.buffers[m].dropped.copy())
            for m in models
        }
        smallest = min(room(run.config, m, run.matchmaking.most_held(m)) for m in models)
        return Pace(models, smallest, run.next_round, latest)

    @property
    def ahead(self) -> bool:
        """True if models may have trained on rounds after the last returned one."""
        return self._prepared > self._returned

    def next_round(self) -> RoundResult:
        """Return the next round once all models that are not behind have trained on it.

        All models learn from the run's last round. Raises errors of episodes and learners; the
        schedule is closed then.
        """
        try:
            number = self._returned
            self._pause(False)
            while not self._is_learned(number):
                self._start_rounds()
                if not self._prepare_round():
                    self._wait()
            return self._result(number)
        except BaseException:
            self.close()
            raise

    def settle(self) -> list[RoundResult]:
        """Wait for all prepared rounds and return the ones after the last returned round.

        Nothing is learned afterwards until `next_round` is called. Raises as `next_round`.
        """
        try:
            self._pause(True)
            while not self._is_settled():
                self._wait()
            return [self._result(number) for number in range(self._returned, self._prepared)]
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Cancel all episodes, let models complete their current round, and end all threads."""
        with self._changed:
            if self._closing:
                return
            self._closing = True
            self._changed.notify_all()
        for thread in (self._play_thread, *self._threads):
            thread.close()

    # Play.

    def _start_rounds(self) -> None:
        while self._may_start(self._started):
            number = self._started
            with ExitStack() as between_updates:
                if growth_is_due(self._run, number):
                    for pace in self._paces:
                        between_updates.enter_context(pace.learning)
                plan = plan_round(self._run, number)
            load_opponents(self._run, plan.opponents[0])  # RunConfig: the same in all groups
            self._playing[number] = playing = self._play_thread.submit(self._rollout(number, plan))
            playing.add_done_callback(self._notify)
            self._started += 1

    def _may_start(self, number: int) -> bool:
        if number >= self._run.config.rounds or self._failed:
            return False
        if self._run.pools and self._prepared < number:
            # A pool plays one snapshot at a time, and the next draw depends on all results.
            return False
        with self._changed:
            return all(number - own.learned <= own.room for own in self._paces if not own.behind)

    async def _rollout(self, number: int, plan: RoundPlan) -> list[Episode]:
        self._activity.change("rollout", 1)
        try:
            games = plan.part(range(len(plan.games)))
            return await self._run.engine.play_async(games, self._in_flight)
        finally:
            self._activity.change("rollout", -1)

    def _prepare_round(self) -> bool:
        """Hand the next round to the models if its episodes have ended; return True if so."""
        number = self._prepared
        playing = self._playing.get(number)
        if playing is None or not playing.done():
            return False
        if any(map(self._saves_after, range(self._returned, number))):
            return False
        try:
            self._run.check_failures(playing.result())
        except BaseException:
            self._failed = True
            if self._returned < number:
                return False
            raise
        played = prepare(self._run, number, self._playing.pop(number).result())
        with self._changed:
            self._played[number] = played
            self._prepared += 1
            for pace in self._paces:
                pace.waiting.append(played)
            self._changed.notify_all()
        return True

    # Learning.

    async def _learn(self, pace: Pace) -> None:
        """Learn from all rounds in order; the whole work of one thread."""
        while (played := self._next_for(pace)) is not None:
            with pace.learning:
                self._activity.change("train", 1)
                updates = learn(self._run, played, pace.models)
                self._activity.change("train", -1)
            with self._changed:
                pace.busy = False
                pace.learned += 1
                pace.updates[played.number] = updates
                self._compare_paces()
            self._notify()

    def _next_for(self, pace: Pace) -> PlayedRound | None:
        with self._changed:
            self._changed.wait_for(
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

    # Coordination.

    def _is_learned(self, number: int) -> bool:
        last = number == self._run.config.rounds - 1
        with self._changed:
            self._read_news()
            if self._prepared <= number:
                return False
            if not all(own.learned > number for own in self._paces if last or not own.behind):
                return False
        if last or not self._saves_after(number):
            return True
        self._pause(True)
        return self._is_settled()

    def _is_settled(self) -> bool:
        with self._changed:
            self._read_news()
            if any(pace.busy or (pace.waiting and not pace.behind) for pace in self._paces):
                return False
            for pace in self._paces:
                self._move_to_buffers(pace)
            return True

    def _read_news(self) -> None:
        """Raise the error of a learner; wait for other news afterwards."""
        self._has_news = False
        for learning in self._learning:
            if learning.done():
                learning.result()

    def _move_to_buffers(self, pace: Pace) -> None:
        """Add the waiting samples of models that are behind to their buffers, for a checkpoint."""
        for place, played in enumerate(pace.waiting):
            for model in pace.models:
                self._run.buffers[model].add(played.samples[model])
            pace.waiting[place] = dataclasses.replace(
                played, samples=dict.fromkeys(pace.models, ())
            )

    def _result(self, number: int) -> RoundResult:
        with self._changed:
            for pace in self._paces:
                ready = [pace.updates.pop(n) for n in sorted(pace.updates) if n <= number]
                for model in pace.models:
                    parts = [updates[model] for updates in ready]
                    pace.latest[model] = combined(pace.latest[model], parts)
            updates = {m: own for pace in self._paces for m, own in pace.latest.items()}
            self._returned += 1
        return finish(self._run, self._played.pop(number), updates, self._activity.seconds())

    def _pause(self, paused: bool) -> None:
        with self._changed:
            self._paused = paused
            self._changed.notify_all()

    def _wait(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._has_news)

    def _notify(self, _: object = None) -> None:
        with self._changed:
            self._has_news = True
            self._changed.notify_all()


def room(config: RunConfig, model: str, agents: int) -> int:
    """Return the number of rounds that may be played ahead of a model.

    Args:
        config: Configuration of the run.
        model: Name of the model.
        agents: Largest number of agents that the model plays in an episode.
    """
    per_round = agents * config.rollout.episodes
    updates = -(-per_round // config.sample_budget.get(model, per_round))
    bound = config.updates.max_staleness - config.backend.publication_lag
    return max(0, (bound + 1) // updates - 1)


def combined(last: UpdateStats, parts: Sequence[UpdateStats]) -> UpdateStats:
    """Return the sum of the statistics in `parts`, with the version of `last` if there are none."""
    total = UpdateStats(version=last.version, dropped=last.dropped)
    for part in parts:
        total.samples += part.samples
        total.updates += part.updates
        total.steps_left_out += part.steps_left_out
        total.staleness += part.staleness
        total.age += part.age
        total.metrics = part.metrics or total.metrics
        total.weight_change += part.weight_change
        total.sent += part.sent
        total.received += part.received
        total.version, total.dropped = part.version, part.dropped
    return total
