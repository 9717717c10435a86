"""Remote server: one that a worker runs on its node, as a server that is supervised from here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from srl_extensions.vllm.command import ServerSpec
from srl_extensions.vllm.server import Server
from srl_train.distributed.ray_engine.standing import StandingWorker


class RemoteServer(Server):
    """A server by calls to a ServerWorker, which may die at any time.

    Its successor has no server, so that its supervisor starts it again there.
    """

    def __init__(self, spec: ServerSpec, worker: StandingWorker, put: Callable[[Any], Any]) -> None:
        """`put` lays a value where calls take it from."""
        super().__init__(spec)
        self._worker, self._put = worker, put

    @property
    def alive(self) -> bool:
        """See Server."""
        return bool(self._worker.call("alive"))

    def start(self) -> None:
        """See Server."""
        self._worker.call("start", self.spec)

    def stop(self, drain: float = 0.0) -> None:
        """End the server; the server of a worker that is gone has ended with the worker."""
        if self._worker.stands:
            self._worker.call("stop", drain)

    def kill(self) -> None:
        """See Server."""
        self._worker.call("kill")

    def cause_of_death(self) -> str:
        """See Server."""
        return str(self._worker.call("cause_of_death"))

    def upload(self, folder: Path) -> Path:
        """Copy the files of a folder to the node of the server, once."""
        there: Path | None = self._worker.call("laid", folder.name)
        if there is None:
            files = {file.name: file.read_bytes() for file in folder.iterdir()}
            there = self._worker.call("lay", folder.name, self._put(files))
        assert there is not None
        return there

    def discard(self, folder: Path) -> None:
        """Remove the copy that `upload` made."""
        if self._worker.stands:
            self._worker.call("clear", folder.name)
