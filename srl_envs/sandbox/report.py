"""Runs of calls and of tests written as code, judged by reports that the program may have forged.

A test written as code is a program in a separate run. Its calls are answered by another run, of
the tested program. Every value is parsed and serialized anew in between, so no object or patched
builtin of the tested program is in the process in which the test decides.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Collection, Mapping, Sequence

from srl_envs.sandbox.guest import serialization, zygote
from srl_envs.sandbox.guest.serialization import NotPlainError
from srl_envs.sandbox.records import CallOutcome, ProgramRun, SandboxVerdict
from srl_envs.sandbox.worker import Running
from srl_envs.untrusted import printable

WORDS = 400  # characters of an error
OK = CallOutcome(SandboxVerdict.OK)
NONSENSE = CallOutcome(SandboxVerdict.KILLED, error="what it reported cannot be read")
OF_A_CALL = {each.value: each for each in (SandboxVerdict.ERROR, SandboxVerdict.MEMORY)}
"""Verdicts that a program may report for a failed call; for its loading, also SYNTAX."""
OF_A_PROGRAM = {**OF_A_CALL, SandboxVerdict.SYNTAX.value: SandboxVerdict.SYNTAX}


def run_calls(running: Running, calls: Sequence[bytes]) -> ProgramRun:
    """Send a started program its calls, each after the answer to the one before.

    So no answer can depend on a later call.
    """
    if not calls:
        running.hang_up()
    last = reported(running, OF_A_PROGRAM)
    outcomes: list[CallOutcome] = []
    if last.verdict is SandboxVerdict.OK:
        for call in calls:
            running.send(call + b"\n")
            last = reported(running)
            if last.verdict is not SandboxVerdict.OK and last.verdict not in OF_A_CALL:
                break
            outcomes.append(last)
        else:
            last = OK
    running.hang_up()
    if last is NONSENSE:
        running.stop()
    running.finish()
    if last.verdict is SandboxVerdict.OK:
        last = NONSENSE if running.received else ending(running)
    missing = len(calls) - len(outcomes)
    if missing:
        outcomes += [last, *[CallOutcome(SandboxVerdict.NOT_RUN)] * (missing - 1)]
    return _run(running, last, outcomes)


def judged(
    program: Running, start_trial: Callable[[], Running], functions: Collection[str]
) -> ProgramRun:
    """Run a test on a program that is being loaded, and end both processes."""
    with program:
        said = reported(program, OF_A_PROGRAM)
        if said.verdict is SandboxVerdict.OK:
            with start_trial() as trial:
                said = _tried(program, trial, functions)
                trial.stop()
                trial.finish()
        program.stop()
        program.finish()
    return _run(program, said)


def _tried(program: Running, trial: Running, functions: Collection[str]) -> CallOutcome:
    failed: CallOutcome | None = None
    while (line := trial.line()) is not None:
        asked = _asked(line, functions)
        if asked is None:
            said = outcome_of(line, OF_A_PROGRAM) or NONSENSE
            break
        program.send(asked + b"\n")
        answer = reported(program)
        failed = None if answer.verdict is SandboxVerdict.OK else answer
        trial.send(answered(answer) + b"\n")
    else:
        said = ending(trial, early=True)
    if said.verdict is SandboxVerdict.ERROR and said.error.startswith("AssertionError"):
        return CallOutcome(SandboxVerdict.WRONG, error=said.error)
    # A test that fails because a call failed has the verdict of that call.
    return failed if failed is not None and said.verdict is not SandboxVerdict.OK else said


def _asked(line: bytes, functions: Collection[str]) -> bytes | None:
    """Return the call in a line of a trial, serialized anew, or None if there is none."""
    try:
        said = json.loads(line)
        function, args, kwargs = serialization.loads(said["call"].encode())
        return serialization.dumps((function, args, kwargs)) if function in functions else None
    except (NotPlainError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def answered(answer: CallOutcome) -> bytes:
    """Return the answer to a trial for the outcome of a call."""
    if answer.verdict is not SandboxVerdict.OK:
        return json.dumps({"error": answer.error}).encode()
    return json.dumps({"value": serialization.dumps(answer.value).decode()}).encode()


def reported(running: Running, failures: Mapping[str, SandboxVerdict] = OF_A_CALL) -> CallOutcome:
    """Return the next outcome of a run: NONSENSE if unreadable, the ending if the run ended."""
    line = running.line()
    if line is None:
        return ending(running, early=True)
    return outcome_of(line, failures) or NONSENSE


def outcome_of(
    line: bytes, failures: Mapping[str, SandboxVerdict] = OF_A_CALL
) -> CallOutcome | None:
    """Parse one line of a report; return None if it is invalid."""
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict) or not said.keys() <= {"value", "error", "verdict"}:
        return None
    if not all(isinstance(part, str) for part in said.values()):
        return None
    if "error" in said:
        verdict = failures.get(said.get("verdict", "error"))
        error = printable(said["error"], multiline=False)[:WORDS]
        return None if verdict is None else CallOutcome(verdict, error=error)
    if "value" not in said:
        return OK
    try:
        return CallOutcome(SandboxVerdict.OK, serialization.loads(said["value"].encode()))
    except (NotPlainError, UnicodeEncodeError):
        return None


def ending(running: Running, *, early: bool = False) -> CallOutcome:
    """Return the outcome of the process of a run; `early` if it had not done its calls."""
    running.finish()
    limits, status = running.worker.limits, running.status or 0
    if running.flooded:
        most = limits.output if running.flooded == "output" else limits.results
        error = f"more than {most} bytes of {running.flooded}"
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


def _run(running: Running, said: CallOutcome, outcomes: Sequence[CallOutcome] = ()) -> ProgramRun:
    """Return the record of a run, its output without control characters."""
    printed = printable(running.printed.decode(errors="replace"))[: running.worker.limits.output]
    return ProgramRun(said.verdict, tuple(outcomes), printed, said.error, running.wall, running.cpu)
