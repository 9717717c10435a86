"""Sandbox for untrusted programs, whose results are compared in the calling process.

    with Sandbox() as sandbox:
        report = sandbox.check(source, [Test(SandboxCall("add", (1, 2)), 3)])

A program receives the arguments of its calls as plain data, one call at a time, and returns plain
data. The expected values never leave this process, where they are compared by value and type.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from srl_envs.sandbox.guest import serialization
from srl_envs.sandbox.records import (
    FEATURES,
    LEVELS,
    CallOutcome,
    Limits,
    ProgramRun,
    Protections,
    SandboxCall,
    SandboxError,
    SandboxVerdict,
    Test,
    TestReport,
)
from srl_envs.sandbox.report import judged, run_calls
from srl_envs.sandbox.worker import Pool, Running, WorkerLostError
from srl_envs.validation import check_choice, number_between, whole_number

SOLUTION, PROGRAM = "solution", "__main__"
"""`__name__` of a program whose functions are called, and of a program that is only run."""

_LOST = CallOutcome(SandboxVerdict.KILLED, error="the run took its worker with it")


class Sandbox:
    """Pool of workers that run untrusted Python, each run in a separate process.

    Threads may share a sandbox, processes may not. Copies of a sandbox are the same sandbox.

    Args:
        limits: Limits of each run.
        minimum: Lowest acceptable level of protection, one of LEVELS.
        workers: Number of simultaneous runs; workers start when they are needed.
        without: Features of the kernel (FEATURES) to leave unused.

    Raises:
        SandboxError: The level is not available, or the system is not Linux.
    """

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        minimum: str = "filtered",
        workers: int = 2,
        without: Collection[str] = (),
    ) -> None:
        self.limits = Limits() if limits is None else limits
        self.minimum: str = check_choice("minimum", minimum, LEVELS)
        self.workers = whole_number("workers", workers, low=1)
        self.without = frozenset(check_choice("without", each, FEATURES) for each in without)
        if sys.platform != "linux":
            raise SandboxError(f"the sandbox needs Linux, not {sys.platform}: use a container")
        self._pool = Pool(self.limits, self.minimum, self.workers, self.without)

    def protections(self) -> Protections:
        """Return the active protections."""
        return self._pool.protections

    def run(
        self,
        source: str,
        calls: Sequence[SandboxCall] = (),
        *,
        stdin: str = "",
        name: str = SOLUTION,
        wall: float | None = None,
    ) -> ProgramRun:
        """Run a program, then the calls in order. No failure of the program raises an exception.

        Args:
            source: Source of the program.
            calls: Calls of its functions.
            stdin: Standard input.
            name: `__name__` of the program.
            wall: Seconds, by default those of the limits.

        Returns:
            Record of the run, with an outcome for each call.

        Raises:
            NotPlainError: An argument of a call is no plain data.
            SandboxError: The sandbox is closed, or belongs to another process.
        """
        request = _request(source, name=name)
        written = [
            serialization.dumps((call.function, tuple(call.args), dict(call.kwargs)))
            for call in calls
        ]
        given = stdin.encode(errors="surrogatepass")
        seconds = self.limits.wall if wall is None else number_between("wall", wall, 0.01)
        try:
            with self._pool.lend() as [worker], Running(worker, request, given, seconds) as run:
                return run_calls(run, written)
        except WorkerLostError:
            return _lost(len(calls))

    def evaluate(self, source: str, stdin: str = "", *, wall: float | None = None) -> ProgramRun:
        """Run a program as `__main__`, and return its record with the output in `stdout`."""
        return self.run(source, stdin=stdin, name=PROGRAM, wall=wall)

    def check(self, source: str, tests: Sequence[Test], *, wall: float | None = None) -> TestReport:
        """Run the calls of tests, and compare the results with the expected values."""
        run = self.run(source, [test.call for test in tests], wall=wall)
        pairs = zip(tests, run.outcomes, strict=True)
        return TestReport(run, tuple(test.verdict(outcome) for test, outcome in pairs))

    def judge(self, source: str, trial: str, functions: Collection[str]) -> ProgramRun:
        """Run a test written as code in another process than the program.

        Args:
            source: Source of the program.
            trial: Source of the test, in which `functions` call the program with plain data. The
                dict `elsewhere` also contains them.
            functions: Names of functions of the program.

        Returns:
            Record with verdict OK if the trial ends without an exception, WRONG for an
            AssertionError, and otherwise the verdict of the program.

        Raises:
            SandboxError: The sandbox has one worker, and this method needs two.
        """
        if self.workers < 2:
            raise SandboxError(f"judge() needs at least workers=2, got {self.workers}")
        program = _request(source)
        test = _request(trial, name="trial", elsewhere=sorted(functions))
        wall = self.limits.wall
        try:
            with self._pool.lend(2) as [one, other]:
                tested = Running(one, program, b"", wall)
                return judged(tested, lambda: Running(other, test, b"", wall), functions)
        except WorkerLostError:
            return _lost(0)

    def close(self) -> None:
        """End all workers; later runs raise SandboxError."""
        self._pool.close()

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        again = functools.partial(
            Sandbox, minimum=self.minimum, workers=self.workers, without=self.without
        )
        return again, (self.limits,)

    def __deepcopy__(self, memo: Mapping[int, Any]) -> Sandbox:
        return self


def _request(source: str, *, name: str = SOLUTION, elsewhere: Sequence[str] = ()) -> bytes:
    return json.dumps({"source": source, "name": name, "elsewhere": elsewhere}).encode()


def _lost(calls: int) -> ProgramRun:
    return ProgramRun(_LOST.verdict, (_LOST,) * calls, error=_LOST.error)
