"""Play ahead: rounds are played while models learn from earlier rounds, each in its own thread.

`next_round` starts rounds, and hands completed ones to the models in order. One thread plays the
episodes of all current rounds in one event loop. Each model learns in its own thread; if the update
strategy exchanges weights or gradients, all models share one thread.

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
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import ExitStack

from srl_agents.episode import Episode
from srl_agents.event_loop import LoopThread
from srl_train.config.learning.updates import INDEPENDENT
from srl_train.config.run import RunConfig
from srl_train.errors import TrainingError
from srl_train.pools import growth_is_due, load_opponents
from srl_train.round import RoundPlan, RoundResult, finish, learn, plan_round, prepare
from srl_train.run import PlayedRound, Run, UpdateStats


class LearnerThread:
    """Thread in which `models` train together on rounds, in order, beginning with round `first`.

    The episodes of a round start only after training on all but `room` earlier rounds.
    """

    def __init__(self, models: tuple[str, ...], room: int, first: int) -> None:
        self.models, self.room = models, room
        self.learned = first
        """Number of rounds that the models have trained on."""
        self.updates: dict[int, Future[tuple[dict[str, UpdateStats], float]]] = {}
        """Round to its statistics and the seconds of learning, until they are returned."""
        self.learning = threading.Lock()
        """Locked while the models learn."""
        self.executor = ThreadPoolExecutor(1, " ".join(models))


class PlayAhead:
    """Schedule of rounds that are played ahead of the models (srl_train.schedule.Schedule).

    Between calls, started rounds and queued updates continue, but no round starts.
    `saves_after(number)` is True if a checkpoint follows the round of this number.
    """

    def __init__(self, run: Run, saves_after: Callable[[int], bool]) -> None:
        self._run = run
        self._rollout_seconds: dict[int, float] = {}
        """Round to the seconds in which it was played."""
        self._returned_at = time.perf_counter()
        self._saves_after = saves_after
        self._returned = self._prepared = self._started = run.next_round
        self._playing: dict[int, Future[list[Episode]]] = {}
        self._played: dict[int, PlayedRound] = {}
        self._failed = False
        """True if a round failed; its error is raised after earlier rounds were returned."""
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
        """Wait until all models have trained on the next round; return its row and episodes.

        Meanwhile, rounds start if `max_staleness` permits. Any error, also of later rounds, closes
        the schedule and is raised. Raises TrainingError if no round is left.
        """
        try:
            number = self._returned
            if number >= self._run.config.rounds:
                raise TrainingError("no round is left")
            while not self._have_learned(number):
                self._start_rounds()
                if not self._prepare_round():
                    self._news.wait()
            return self._result(number)
        except BaseException:
            self.close()
            raise

    def settle(self) -> list[RoundResult]:
        """Wait until models have trained on all rounds handed to them; return their results.

        Rounds that were returned before are not included. Afterwards, no model learns until
        `next_round` is called. An error of a learner closes the schedule and is raised.
        """
        try:
            while not self._have_learned(self._prepared - 1):
                self._news.wait()
            return [self._result(number) for number in range(self._returned, self._prepared)]
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Cancel episodes and queued updates, complete running updates, and end all threads."""
        if not self._closed:
            self._closed = True
            self._play_thread.close()
            for learner in self._learners:  # Before waiting for one, end the queues of all.
                learner.executor.shutdown(wait=False, cancel_futures=True)
            for learner in self._learners:
                learner.executor.shutdown()

    def _start_rounds(self) -> None:
        while self._may_start(self._started):
            number = self._started
            with ExitStack() as between_updates:
                if growth_is_due(self._run, number):
                    for learner in self._learners:
                        between_updates.enter_context(learner.learning)
                plan = plan_round(self._run, number)
            load_opponents(self._run, plan.opponents[0])
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
        began = time.perf_counter()
        games = plan.part(range(len(plan.games)))
        episodes = await self._run.engine.play_async(games, self._in_flight)
        self._rollout_seconds[number] = time.perf_counter() - began
        return episodes

    def _prepare_round(self) -> bool:
        """Queue the next round's updates and return True, or False if that must wait."""
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

    def _learn(
        self, learner: LearnerThread, played: PlayedRound
    ) -> tuple[dict[str, UpdateStats], float]:
        if learner.learned < played.number:
            raise CancelledError  # An earlier round has failed.
        with learner.learning:
            began = time.perf_counter()
            updates = learn(self._run, played, learner.models)
            seconds = time.perf_counter() - began
        learner.learned += 1
        return updates, seconds

    def _have_learned(self, number: int) -> bool:
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
        train = 0.0
        for learner in self._learners:
            learned, seconds = learner.updates.pop(number).result()
            updates |= learned
            train = max(train, seconds)
        rollout, now = self._rollout_seconds.pop(number), time.perf_counter()
        overlap = min(max(rollout + train - (now - self._returned_at), 0.0), rollout, train)
        self._returned += 1
        self._returned_at = now
        times = {"rollout": rollout, "train": train, "overlap": overlap}
        return finish(self._run, self._played.pop(number), updates, times)


def room(config: RunConfig, model: str, agents: int) -> int:
    """Return the maximum number of rounds, 0 or more, that play may be ahead of a model.

    `agents` is the largest number of agents that the model plays in an episode.
    """
    per_round = agents * config.rollout.episodes
    updates = -(-per_round // config.sample_budget.get(model, per_round))
    return max(0, (config.updates.max_staleness + 1) // updates - 1)
