"""Remote player: games and published weights, through a queue, to a worker that may die."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from srl_agents.episode import Episode
from srl_agents.llm.backends.chat_backend import Usage
from srl_train.distributed.ray_engine.player import Introduction
from srl_train.distributed.ray_engine.standing import StandingWorker, Worker


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
        self._held: dict[str, tuple[int | str, Any]] = {}
        self._failed: BaseException | None = None

    def introduction(self) -> Future[Introduction]:
        """Whom it plays with."""
        return self._queue.submit(self.worker.call, "introduction")

    def publish(self, name: str, version: int | str, weights: Any) -> None:
        """From what is asked next on, `name` plays with these weights; returns at once.

        What goes wrong with it is raised by the next game.
        """
        self._queue.submit(self._publish, name, version, weights)

    def play(self, *arguments: Any) -> Future[list[Episode]]:
        """The games, as `PlayerWorker.play` takes them."""
        return self._queue.submit(self._play, *arguments)

    def close(self) -> None:
        """End the worker; what waits is not done any more."""
        self._queue.shutdown(wait=False, cancel_futures=True)
        self.worker.close()

    def _publish(self, name: str, version: int | str, weights: Any) -> None:
        try:
            self.worker.call("publish", name, version, weights)
        except BaseException as error:
            self._failed = error
            raise
        self._held[name] = version, weights

    def _play(self, *arguments: Any) -> list[Episode]:
        if self._failed is not None:
            raise self._failed
        episodes, self.usages[-1] = self.worker.call("play", *arguments)
        found: list[Episode] = episodes
        return found

    def _bring_back(self, worker: Worker) -> None:
        self.usages.append({})
        for name, (version, weights) in self._held.items():
            worker.call("publish", name, version, weights)
