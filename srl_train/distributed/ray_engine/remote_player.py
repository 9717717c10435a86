"""Remote player: games and published weights, through a queue, to a worker that may die."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from torch import Tensor

from srl_agents.episode import Episode
from srl_agents.llm.backends.chat_backend import Usage
from srl_train.distributed.ray_engine.player import Introduction
from srl_train.distributed.ray_engine.standing import StandingWorker, Worker
from srl_train.learners.learner import without_critic
from srl_train.plan import PlannedGames
from srl_train.publisher import WeightPublisher


class RayPublisher(WeightPublisher):
    """Brings weights to all players of a run, which take them over before their next game."""

    def __init__(self, players: Sequence[RemotePlayer], put: Callable[[Any], Any]) -> None:
        """`put` lays the weights, once, where all players take them from."""
        self._players, self._put = players, put

    def publish(self, name: str, version: int | str, tensors: Mapping[str, Tensor]) -> None:
        """See WeightPublisher."""
        laid = self._put(without_critic(tensors))
        for player in self._players:
            player.tell(name, "publish", name, version, laid)


class RemotePlayer:
    """Plays in a process of its own, one thing after another in the order in which it was told.

    So games that are asked for before new weights are published are played with the older ones,
    also by the successor of a worker that died: it gets the weights that the games were to have,
    and plays them from their seeds.
    """

    def __init__(self, name: str, start: Callable[[], Worker]) -> None:
        """`start` makes a PlayerWorker."""
        self.worker = StandingWorker(name, start, self._bring_back)
        self.usages: list[Mapping[str, Usage]] = []
        """Of each worker so far, frozen model behind an API -> what it has asked it."""
        self._queue = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._held: dict[str, tuple[Any, ...]] = {}
        self._failed: BaseException | None = None

    def introduction(self) -> Future[Introduction]:
        """Whom it plays with."""
        return self._queue.submit(self.worker.call, "introduction")

    def tell(self, name: str, method: str, *arguments: Any) -> Future[None]:
        """From what is asked next on, `name` plays as this method of PlayerWorker's has it; returns
        at once. It takes the place of what was told of `name` before.

        What goes wrong with it is raised by the next game.
        """
        return self._queue.submit(self._tell, name, method, *arguments)

    def hold(self, name: str, over: Future[tuple[Any, ...]]) -> Future[None]:
        """Do nothing more, once what was asked for is done, until it is over, which gives what is
        then told of `name`, as for `tell`; the returned future says when it is so."""
        reached: Future[None] = Future()

        def wait() -> None:
            reached.set_result(None)
            self._tell(name, *over.result())

        def give_up(held: Future[None]) -> None:
            if held.cancelled():
                reached.cancel()

        self._queue.submit(wait).add_done_callback(give_up)
        return reached

    def play(self, games: PlannedGames) -> Future[list[Episode]]:
        """The games' episodes."""
        return self._queue.submit(self._play, games)

    def close(self) -> None:
        """End the worker; what waits is not done any more."""
        self._queue.shutdown(wait=False, cancel_futures=True)
        self.worker.close()

    def _tell(self, name: str, *told: Any) -> None:
        try:
            self.worker.call(*told)
        except BaseException as error:
            self._failed = error
            raise
        self._held[name] = told

    def _play(self, games: PlannedGames) -> list[Episode]:
        if self._failed is not None:
            raise self._failed
        episodes, self.usages[-1] = self.worker.call("play", games)
        found: list[Episode] = episodes
        return found

    def _bring_back(self, worker: Worker) -> None:
        self.usages.append({})
        for told in self._held.values():
            worker.call(*told)
