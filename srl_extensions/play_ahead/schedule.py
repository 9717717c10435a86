"""Play ahead: rounds are played while models learn from earlier rounds, each in its own thread.

The caller of `next_round` coordinates: it starts rounds, and hands completed ones to the models in
order. One thread plays the episodes of all current rounds in one event loop. Each model learns in
its own thread; if the update strategy exchanges weights or gradients, all models share one thread.

Only `updates.max_staleness` limits how far play is ahead. A model that makes u updates from a
round, and whose samples may be s updates old, has room for

    max(0, floor((s + 1) / u) - 1)

rounds: at the start of a round, every model has trained on all earlier rounds except that number.
Its last sample is then at most s updates old. Without room, the rounds are equal to the sequential
loop to the bit.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import ExitStack

from srl_agents.episode import Episode
from srl_agents.event_loop import LoopThread
from srl_train.config.learning.updates import INDEPENDENT
from srl_train.config.run import RunConfig
from srl_train.pools import growth_is_due, load_opponents
from srl_train.round import (
    RoundPlan,
    RoundResult,
    finish,
    learn,
    plan_round,
    prepare,
)
from srl_train.run import PlayedRound, UpdateStats
from srl_train.schedule import ScheduleContext


class Activity:
    """Seconds of rollouts (`rollout`), learning (`train`) and both (`overlap`). Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: Counter[str] = Counter()
        self._since = time.perf_counter()
        self._seconds = dict.fromkeys(("rollout", "train", "overlap"), 0.0)

    def change(self, kind: str, by: int) -> None:
        """Count a rollout or an update (`kind`) that starts (by=1) or ends (by=-1)."""
        with self._lock:
            self._count()
            self._running[kind] += by

    def seconds(self) -> dict[str, float]:
        """Return kind -> its seconds since the last call."""
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


class LearnerThread:
    """Thread in which `models` learn together from all rounds, in order, from round `first` on.

    At most `room` rounds are played ahead of the models.
    """

    def __init__(self, models: tuple[str, ...], room: int, first: int) -> None:
        self.models, self.room = models, room
        self.learned = first
        """Number of rounds that the models have trained on."""
        self.updates: dict[int, Future[dict[str, UpdateStats]]] = {}
        """Round to its statistics, until they are returned."""
        self.learning = threading.Lock()
        """Locked while the models learn."""
        self.executor = ThreadPoolExecutor(1, " ".join(models))


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
        self._news = threading.Event()
        """Set if episodes or an update have ended."""
        self._closed = False
        self._play_thread = LoopThread("play")
        rooms = {m: room(run.config, m, run.matchmaking.most_held(m)) for m in run.learners}
        independent = run.config.updates.strategy == INDEPENDENT
        together = [(model,) for model in rooms] if independent else [tuple(rooms)]
        self._learners = [
            LearnerThread(models, min(map(rooms.__getitem__, models)), run.next_round)
            for models in together
        ]

    @property
    def ahead(self) -> bool:
        """True if models may have trained on rounds after the last returned one."""
        return self._prepared > self._returned

    def next_round(self) -> RoundResult:
        """Return the next round once all models have trained on it.

        An error of an episode or a learner closes the schedule and is raised.
        """
        try:
            number = self._returned
            while not self._have_learned(number):
                self._start_rounds()
                if not self._prepare_round():
                    self._news.wait()
            return self._result(number)
        except BaseException:
            self.close()
            raise

    def settle(self) -> list[RoundResult]:
        """Wait for all prepared rounds and return the ones after the last returned round.

        Afterwards, no model learns until `next_round` is called. Errors are raised as there.
        """
        try:
            while not self._have_learned(self._prepared - 1):
                self._news.wait()
            return [self._result(number) for number in range(self._returned, self._prepared)]
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Cancel all episodes, let models complete their current round, and end all threads."""
        if not self._closed:
            self._closed = True
            self._play_thread.close()
            for learner in self._learners:
                learner.executor.shutdown(cancel_futures=True)

    def _start_rounds(self) -> None:
        while self._may_start(self._started):
            number = self._started
            with ExitStack() as between_updates:
                if growth_is_due(self._run, number):
                    for learner in self._learners:
                        between_updates.enter_context(learner.learning)
                plan = plan_round(self._run, number)
            load_opponents(self._run, plan.opponents[0])  # RunConfig allows no other ones.
            self._playing[number] = playing = self._play_thread.submit(self._rollout(number, plan))
            playing.add_done_callback(lambda _: self._news.set())
            self._started += 1

    def _may_start(self, number: int) -> bool:
        if number >= self._run.config.rounds or self._failed:
            return False
        if self._run.pools and self._prepared < number:
            # A pool plays one snapshot at a time, and the next draw depends on all results.
            return False
        return all(number - learner.learned <= learner.room for learner in self._learners)

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
        self._played[number] = prepare(self._run, number, self._playing.pop(number).result())
        self._prepared += 1
        for learner in self._learners:
            learning = learner.executor.submit(self._learn, learner, self._played[number])
            learner.updates[number] = learning
            learning.add_done_callback(lambda _: self._news.set())
        return True

    def _learn(self, learner: LearnerThread, played: PlayedRound) -> dict[str, UpdateStats]:
        if learner.learned < played.number:
            raise CancelledError  # An earlier round has failed.
        with learner.learning:
            self._activity.change("train", 1)
            updates = learn(self._run, played, learner.models)
            self._activity.change("train", -1)
        learner.learned += 1
        return updates

    def _have_learned(self, number: int) -> bool:
        """Return True if all models have trained on the round; raise the error of a learner."""
        self._news.clear()
        for learner in self._learners:
            for learning in learner.updates.values():
                if learning.done():
                    learning.result()
        return self._prepared > number and all(
            learner.learned > number for learner in self._learners
        )

    def _result(self, number: int) -> RoundResult:
        updates: dict[str, UpdateStats] = {}
        for learner in self._learners:
            updates |= learner.updates.pop(number).result()
        self._returned += 1
        return finish(self._run, self._played.pop(number), updates, self._activity.seconds())


def room(config: RunConfig, model: str, agents: int) -> int:
    """Return the number of rounds that may be played ahead of a model.

    `agents` is the largest number of agents that the model plays in an episode.
    """
    per_round = agents * config.rollout.episodes
    updates = -(-per_round // config.sample_budget.get(model, per_round))
    return max(0, (config.updates.max_staleness + 1) // updates - 1)
