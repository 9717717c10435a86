"""Pool of workers: started on demand, lent, and replaced when lost."""

from __future__ import annotations

import functools
import os
import queue
import threading
import weakref
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from srl_envs.sandbox import seccomp
from srl_envs.sandbox.errors import SandboxError
from srl_envs.sandbox.guest import runner
from srl_envs.sandbox.limits import Limits
from srl_envs.sandbox.protections import Protections
from srl_envs.sandbox.worker import Worker, WorkerLostError


class Pool:
    """Up to `size` workers; threads may share it, processes may not."""

    def __init__(self, limits: Limits, minimum: str, size: int, without: Collection[str]) -> None:
        self._limits, self._minimum, self._without = limits, minimum, frozenset(without)
        self._owner = os.getpid()
        self._workers: list[Worker] = []
        self._idle: queue.LifoQueue[Worker | None] = queue.LifoQueue()  # None: not started yet
        self._several = threading.Lock()
        self.close = weakref.finalize(self, _close_all, self._workers)
        """Ends all workers."""
        for _ in range(size - 1):
            self._idle.put(None)
        first = self._started()
        self.protections: Protections = first.protections
        self._idle.put(first)

    @contextmanager
    def lend(self, count: int = 1) -> Iterator[list[Worker]]:
        """So many workers, waited for; one that is lost meanwhile is replaced afterwards."""
        if os.getpid() != self._owner:
            raise SandboxError(
                "this sandbox belongs to the process that made it: make one in each process"
            )
        with ExitStack() as lent:
            # One thread at a time gathers, or two might each hold what the other waits for.
            with self._several:
                workers = [lent.enter_context(self._one()) for _ in range(count)]
            yield workers

    @contextmanager
    def _one(self) -> Iterator[Worker]:
        if not self.close.alive:
            raise SandboxError("this sandbox is closed")
        worker = self._idle.get()
        try:
            if worker is not None and not worker.idle():  # it ended while nobody looked
                self._drop(worker)
                worker = None
            if worker is None:
                worker = self._started()
            yield worker
        except BaseException:
            # Whatever interrupted the run, its worker may still be busy with it.
            if worker is not None:
                self._drop(worker)
                worker = None
            raise
        finally:
            self._idle.put(worker)

    def _drop(self, worker: Worker) -> None:
        self._workers.remove(worker)
        worker.close()

    def _started(self) -> Worker:
        filters, why = ({}, "") if "seccomp" in self._without else _filters()
        worker = Worker(self._limits, filters, self._without)
        if why:
            refused = {**worker.protections.refused, "seccomp": why}
            worker.protections = replace(worker.protections, refused=refused)
        if not worker.protections.reaches(self._minimum):
            worker.close()
            raise SandboxError(
                f"the sandbox reaches {worker.protections}. Wanted is level {self._minimum} or "
                "better: allow what is missing, or give a lower minimum if you trust the programs"
            )
        self._workers.append(worker)
        words = ""
        try:
            with worker.start(runner.NOTHING, b"", self._limits.wall) as running:
                running.hang_up()
                running.finish()
            if running.status or running.received != runner.DONE:
                words = running.printed.decode(errors="replace").strip() or str(running.status)
        except WorkerLostError as error:
            words = worker.last_words() or str(error)
        if words:
            self._drop(worker)
            raise SandboxError(f"an empty program could not be run: {words.splitlines()[-1]}")
        return worker


@functools.cache
def _filters() -> tuple[dict[str, bytes], str]:
    """The compiled filters, by what they leave of files, or why there are none."""
    try:
        return {files: seccomp.compiled(files) for files in seccomp.FILES}, ""
    except ImportError as error:
        return {}, str(error)


def _close_all(workers: list[Worker]) -> None:
    while workers:
        workers.pop().close()
