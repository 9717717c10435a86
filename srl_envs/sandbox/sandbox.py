"""Sandbox: untrusted programs run confined and judged outside.

    with Sandbox() as sandbox:
        report = sandbox.check(source, [Test(Call("add", (1, 2)), 3)])

A program is sent the arguments of its calls as plain data, one call at a time, and sends back plain
data. What it ought to have returned never leaves this process, where it is compared, by value and
type.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from srl_envs.sandbox.code_tests import judged
from srl_envs.sandbox.errors import SandboxError
from srl_envs.sandbox.guest import serialization
from srl_envs.sandbox.limits import Limits
from srl_envs.sandbox.pool import Pool
from srl_envs.sandbox.protections import FEATURES, LEVELS, Protections
from srl_envs.sandbox.report import run_calls
from srl_envs.sandbox.results import Call, Outcome, Run, Test, TestReport, Verdict
from srl_envs.sandbox.worker import WorkerLostError
from srl_envs.validation import check_choice, number_between, whole_number

SOLUTION, PROGRAM = "solution", "__main__"
"""A program's `__name__`: of one whose functions are called, and of one that is only run."""

_LOST = Outcome(Verdict.KILLED, error="the run took its worker with it")


class Sandbox:
    """A pool of workers that run untrusted Python, each run in a process of its own.

    `minimum` is the lowest level of protection (LEVELS) that will do; `without` names kernel
    features (FEATURES) to leave unused. At most `workers` runs go on at once; threads may share a
    sandbox, processes may not. The first worker starts now, the others when they are needed.
    Raises SandboxError where less than `minimum` is to be had, and where there is no Linux.
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
        """What is active and what was refused; its `level`, and as text a line that says all."""
        return self._pool.protections

    def run(
        self,
        source: str,
        calls: Sequence[Call] = (),
        *,
        stdin: str = "",
        name: str = SOLUTION,
        wall: float | None = None,
    ) -> Run:
        """Run a program, then the calls in order. Never raises for what the program does.

        `wall` seconds instead of the limit's. Raises NotPlainError for arguments that are no
        plain data.
        """
        request = _request(source, name=name)
        written = [_call(call) for call in calls]
        given = stdin.encode(errors="surrogatepass")
        seconds = self.limits.wall if wall is None else number_between("wall", wall, 0.01)
        try:
            with self._pool.lend() as [worker], worker.start(request, given, seconds) as running:
                return run_calls(running, written)
        except WorkerLostError:
            return _lost(len(calls))

    def evaluate(self, source: str, stdin: str = "", *, wall: float | None = None) -> Run:
        """Run a program as a whole (`__name__` is "__main__"); its output is in `stdout`."""
        return self.run(source, stdin=stdin, name=PROGRAM, wall=wall)

    def check(self, source: str, tests: Sequence[Test], *, wall: float | None = None) -> TestReport:
        """Run the tests' calls in one run, and compare here what they returned."""
        run = self.run(source, [test.call for test in tests], wall=wall)
        pairs = zip(tests, run.outcomes, strict=True)
        return TestReport(run, tuple(test.verdict(outcome) for test, outcome in pairs))

    def judge(self, source: str, trial: str, functions: Collection[str]) -> Run:
        """Run a test written as code, in a process apart from the program it tests.

        `trial` is the test's source, in which `functions` are the program's: called with plain
        data, answered with plain data. They are in the dict `elsewhere` too, for a test that has
        functions of the same names. The verdict is OK where the trial ends without an
        exception, WRONG for an AssertionError, and otherwise what became of the program. Raises
        SandboxError for a sandbox of one worker: the program's and the test's are two.
        """
        if self.workers < 2:
            raise SandboxError("judge() needs two workers, the program's and the test's: workers=2")
        program = _request(source)
        asking = _request(trial, name="trial", asks=sorted(functions))
        wall = self.limits.wall
        try:
            with self._pool.lend(2) as [one, other]:
                tested = one.start(program, b"", wall)
                return judged(tested, lambda: other.start(asking, b"", wall), functions)
        except WorkerLostError:
            return _lost(0)

    def close(self) -> None:
        """End all workers. Runs afterwards raise SandboxError."""
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
        """Itself: copies of what uses a sandbox run their programs in the same workers."""
        return self


def _request(source: str, *, name: str = SOLUTION, asks: Sequence[str] = ()) -> bytes:
    return json.dumps({"source": source, "name": name, "asks": asks}).encode()


def _call(call: Call) -> bytes:
    return serialization.dumps((call.function, tuple(call.args), dict(call.kwargs)))


def _lost(calls: int) -> Run:
    return Run(_LOST.verdict, (_LOST,) * calls, error=_LOST.error)
