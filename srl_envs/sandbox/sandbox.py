"""Sandbox for untrusted programs, whose results are compared in the calling process.

    with Sandbox() as sandbox:
        report = sandbox.check(source, [Test(SandboxCall("add", (1, 2)), 3)])

A program receives the arguments of its calls as plain data, one call at a time, and returns plain
data. The expected values never leave this process, where they are compared by value and type. The
program may have forged its report, so every line of it is untrusted.

A test written as code is a program in a separate run. Another run, of the tested program, answers
its calls. Every value is parsed and serialized anew in between, so no object or patched builtin of
the tested program is in the process in which the test decides.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import sys
import threading
import weakref
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

from srl_envs.sandbox.guest import serialization, zygote
from srl_envs.sandbox.guest.serialization import NotPlainError
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
from srl_envs.sandbox.worker import Running, Worker, WorkerLostError
from srl_envs.untrusted import printable
from srl_envs.validation import check_choice, whole_number

SOLUTION, PROGRAM = "solution", "__main__"
"""`__name__` of a program whose functions are called, and of a program that is only run."""

ERROR_LENGTH = 400  # characters of an error
OK = CallOutcome(SandboxVerdict.OK)
UNREADABLE = CallOutcome(SandboxVerdict.KILLED, error="what it reported cannot be read")
CALL_FAILURES = {kind.value: kind for kind in (SandboxVerdict.ERROR, SandboxVerdict.MEMORY)}
"""Verdicts that a program may report for a failed call; for its loading, also SYNTAX."""
LOADING_FAILURES = {**CALL_FAILURES, SandboxVerdict.SYNTAX.value: SandboxVerdict.SYNTAX}


class Sandbox:
    """Pool of workers that run untrusted Python, each run in a separate process.

    Threads may share a sandbox, processes may not. A deep copy is the same sandbox; other copies
    are new sandboxes with the same settings. A `with` block closes the sandbox at its end.

    Args:
        limits: Limits of each run, None for Limits().
        minimum: Lowest acceptable level of protection, one of LEVELS.
        workers: Largest number of simultaneous runs, at least 2; further ones wait. One worker
            starts now, the others when they are needed.
        without: Features of the kernel (FEATURES) to leave unused.

    Raises:
        EnvConfigError: An argument is invalid.
        SandboxError: No worker starts with this level, or the system is not Linux.
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
        self.workers = whole_number("workers", workers, low=2)
        self.without = frozenset(check_choice("without", each, FEATURES) for each in without)
        if sys.platform != "linux":
            raise SandboxError(f"the sandbox needs Linux, not {sys.platform}: use a container")
        self._owner = os.getpid()
        self._alive: set[Worker] = set()
        self._close = weakref.finalize(self, _close_all, self._alive)
        first = self._usable(None)
        self._protections = first.protections
        self._idle: list[Worker | None] = [*[None] * (self.workers - 1), first]
        """Idle workers; None is not started yet."""
        self._returned = threading.Condition()

    def protections(self) -> Protections:
        """Return the Protections of the workers."""
        return self._protections

    def run(
        self, source: str, calls: Sequence[SandboxCall] = (), *, name: str = SOLUTION
    ) -> ProgramRun:
        """Run a program, then the calls in order. No failure of the program raises an exception.

        Args:
            source: Source of the program.
            calls: Calls of its functions. An exception in a call does not end the run.
            name: `__name__` of the program.

        Returns:
            Record with an outcome per call. If loading fails or the run ends early, the next
            outcome has the verdict, later ones are NOT_RUN. If the worker ends, all are KILLED.

        Raises:
            NotPlainError: An argument of a call is no plain data.
            SandboxError: The sandbox is closed or of another process, or no worker starts.
        """
        request = _request(source, name=name)
        written = [serialization.dumps((call.function, tuple(call.args), {})) for call in calls]
        try:
            with self._idle_workers(1) as [worker], closing(Running(worker, request)) as run:
                return _run_calls(run, written)
        except WorkerLostError:
            return _lost(len(calls))

    def evaluate(self, source: str) -> ProgramRun:
        """Run a program as `__main__`, without calls; return its ProgramRun, or raise as `run`.

        Args:
            source: Source of the program.
        """
        return self.run(source, name=PROGRAM)

    def check(self, source: str, tests: Sequence[Test]) -> TestReport:
        """Run a program, then the calls of tests in order; return a report, or raise as `run`.

        Args:
            source: Source of the program.
            tests: Calls and their expected values.
        """
        run = self.run(source, [test.call for test in tests])
        pairs = zip(tests, run.outcomes, strict=True)
        return TestReport(run, tuple(test.verdict(outcome) for test, outcome in pairs))

    def judge(self, source: str, trial: str, functions: Collection[str]) -> ProgramRun:
        """Run a program and a test written as code in two processes; SandboxError as in `run`.

        Args:
            source: Source of the program.
            trial: Source of the test, in which `functions` call the program with plain data. The
                dict `elsewhere` (name -> function) also contains them.
            functions: Names of functions of the program.

        Returns:
            Record of the program, without outcomes: OK if the trial ends without exception, WRONG
            for an AssertionError, else the verdict of the program, its failed call or the trial.
        """
        test = _request(trial, name="trial", elsewhere=sorted(functions))
        try:
            with (
                self._idle_workers(2) as [one, other],
                closing(Running(one, _request(source))) as tested,
            ):
                outcome = _next_outcome(tested, LOADING_FAILURES)
                if outcome.verdict is SandboxVerdict.OK:
                    with closing(Running(other, test)) as testing:
                        outcome = _tried(tested, testing, functions)
                        testing.stop()
                        testing.finish()
                tested.stop()
                tested.finish()
                return _record(tested, outcome)
        except WorkerLostError:
            return _lost(0)

    def close(self) -> None:
        """End all workers; later runs raise SandboxError. No run may be active."""
        self._close()

    @contextmanager
    def _idle_workers(self, count: int) -> Iterator[list[Worker]]:
        if os.getpid() != self._owner:
            raise SandboxError(
                f"the sandbox belongs to process {self._owner}, not {os.getpid()}: create one in "
                "each process"
            )
        if not self._close.alive:
            raise SandboxError("this sandbox is closed")
        with self._returned:
            self._returned.wait_for(lambda: len(self._idle) >= count)
            lent = [self._idle.pop() for _ in range(count)]
        try:
            for place, worker in enumerate(lent):
                lent[place] = self._usable(worker)
            yield [worker for worker in lent if worker is not None]
        except BaseException:
            # The workers may still be busy with the interrupted run.
            self._end(lent)
            lent = [None] * count
            raise
        finally:
            with self._returned:
                self._idle += lent
                self._returned.notify_all()

    def _usable(self, worker: Worker | None) -> Worker:
        if worker is not None and not worker.is_lost():
            return worker
        self._end([worker])
        started = Worker(self.limits, self.minimum, self.without)
        self._alive.add(started)
        return started

    def _end(self, workers: Collection[Worker | None]) -> None:
        for worker in self._alive.intersection(workers):
            self._alive.remove(worker)
            worker.close()

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


def _close_all(workers: set[Worker]) -> None:
    while workers:
        workers.pop().close()


def shared_sandbox(limits: Limits | None = None, minimum: str = "filtered") -> Sandbox:
    """Return the sandbox of this process with these settings, which later calls return again.

    The four used last are kept. Callers must not close them. Arguments and errors are as for
    Sandbox.
    """
    return _shared(os.getpid(), limits or Limits(), minimum)


@functools.lru_cache(maxsize=4)
def _shared(process: int, limits: Limits, minimum: str) -> Sandbox:
    return Sandbox(limits, minimum=minimum)


def _request(source: str, *, name: str = SOLUTION, elsewhere: Sequence[str] = ()) -> bytes:
    return json.dumps({"source": source, "name": name, "elsewhere": elsewhere}).encode()


def _lost(calls: int) -> ProgramRun:
    lost = CallOutcome(SandboxVerdict.KILLED, error="the run took its worker with it")
    return ProgramRun(lost.verdict, (lost,) * calls, error=lost.error)


def _run_calls(running: Running, calls: Sequence[bytes]) -> ProgramRun:
    if not calls:
        running.hang_up()
    last = _next_outcome(running, LOADING_FAILURES)
    outcomes: list[CallOutcome] = []
    if last.verdict is SandboxVerdict.OK:
        for call in calls:
            # Sent after the last answer, so that no answer can depend on a later call.
            running.send(call + b"\n")
            last = _next_outcome(running)
            if last.verdict is not SandboxVerdict.OK and last.verdict not in CALL_FAILURES:
                break
            outcomes.append(last)
        else:
            last = OK
    running.hang_up()
    if last is UNREADABLE:
        running.stop()
    running.finish()
    if last.verdict is SandboxVerdict.OK:
        last = UNREADABLE if running.received else _ending(running)
    missing = len(calls) - len(outcomes)
    if missing:
        outcomes += [last, *[CallOutcome(SandboxVerdict.NOT_RUN)] * (missing - 1)]
    return _record(running, last, outcomes)


def _tried(program: Running, trial: Running, functions: Collection[str]) -> CallOutcome:
    """Pass calls of a trial to the loaded program; return the outcome at the trial's end."""
    failed: CallOutcome | None = None
    while (line := trial.line()) is not None:
        call = _call_in(line, functions)
        if call is None:
            outcome = _outcome_in(line, LOADING_FAILURES)
            break
        program.send(call + b"\n")
        answer = _next_outcome(program)
        if answer.verdict is SandboxVerdict.OK:
            failed, reply = None, {"value": serialization.dumps(answer.value).decode()}
        else:
            failed, reply = answer, {"error": answer.error}
        trial.send(json.dumps(reply).encode() + b"\n")
    else:
        outcome = _ending(trial, early=True)
    if outcome.verdict is SandboxVerdict.ERROR and outcome.error.startswith("AssertionError"):
        return CallOutcome(SandboxVerdict.WRONG, error=outcome.error)
    # A test that fails because a call failed has the verdict of that call.
    return failed if failed is not None and outcome.verdict is not SandboxVerdict.OK else outcome


def _call_in(line: bytes, functions: Collection[str]) -> bytes | None:
    try:
        function, args, kwargs = serialization.loads(json.loads(line)["call"].encode())
        return serialization.dumps((function, args, kwargs)) if function in functions else None
    except (NotPlainError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _next_outcome(
    running: Running, failures: Mapping[str, SandboxVerdict] = CALL_FAILURES
) -> CallOutcome:
    """Wait for the next outcome of a run, which may be its end (TIMEOUT, OUTPUT or KILLED).

    `failures` is name -> verdict of the failures that the run may report; the outcome of any other
    report is UNREADABLE.
    """
    line = running.line()
    return _ending(running, early=True) if line is None else _outcome_in(line, failures)


def _outcome_in(line: bytes, failures: Mapping[str, SandboxVerdict]) -> CallOutcome:
    """Return the CallOutcome in a report's line, UNREADABLE if malformed or not in `failures`."""
    try:
        report = json.loads(line)
    except (ValueError, RecursionError):
        return UNREADABLE
    if not isinstance(report, dict) or not report.keys() <= {"value", "error", "verdict"}:
        return UNREADABLE
    if not all(isinstance(part, str) for part in report.values()):
        return UNREADABLE
    if "error" in report:
        verdict = failures.get(report.get("verdict", "error"))
        error = printable(report["error"], multiline=False)[:ERROR_LENGTH]
        return UNREADABLE if verdict is None else CallOutcome(verdict, error=error)
    if "value" not in report:
        return OK
    try:
        return CallOutcome(SandboxVerdict.OK, serialization.loads(report["value"].encode()))
    except (NotPlainError, UnicodeEncodeError):
        return UNREADABLE


def _ending(running: Running, *, early: bool = False) -> CallOutcome:
    """Wait for the end of a run; return OK (but KILLED if `early`), or the reason of the end."""
    running.finish()
    limits, status = running.worker.limits, running.status or 0
    if running.flooded:
        error = f"more than {getattr(limits, running.flooded)} bytes of {running.flooded}"
        return CallOutcome(SandboxVerdict.OUTPUT, error=error)
    if running.cause == zygote.TIME_UP:
        return CallOutcome(SandboxVerdict.TIMEOUT, error="its time was up")
    if not os.WIFSIGNALED(status):
        early_end = CallOutcome(SandboxVerdict.KILLED, error="it ended before its calls were done")
        return early_end if early else OK
    number = os.WTERMSIG(status)
    # The kernel enforces the limit in ticks and reports exact times, so the two may differ.
    if number == signal.SIGXCPU or (number == signal.SIGKILL and running.cpu >= limits.cpu * 0.5):
        error = f"more than {limits.cpu} seconds of computing"
        return CallOutcome(SandboxVerdict.TIMEOUT, error=error)
    names = {each.value: each.name for each in signal.Signals}
    return CallOutcome(SandboxVerdict.KILLED, error=f"ended by signal {names.get(number, number)}")


def _record(
    running: Running, outcome: CallOutcome, outcomes: Sequence[CallOutcome] = ()
) -> ProgramRun:
    printed = printable(running.printed.decode(errors="replace"))[: running.worker.limits.output]
    return ProgramRun(outcome.verdict, tuple(outcomes), printed, outcome.error)
