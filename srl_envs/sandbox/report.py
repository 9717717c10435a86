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
    said = reported(running, OF_A_PROGRAM)
    outcomes: list[CallOutcome] = []
    if said is not None and said.verdict is SandboxVerdict.OK:
        for call in calls:
            running.send(call + b"\n")
            said = reported(running)
            if said is None or said is NONSENSE:
                break
            outcomes.append(said)
        else:
            said = CallOutcome(SandboxVerdict.OK)
    running.hang_up()
    if said is NONSENSE:
        running.stop()
    running.finish()
    if said is None:
        said = unanswered(running)
    elif said.verdict is SandboxVerdict.OK:
        said = NONSENSE if running.received else ending(running)
    missing = len(calls) - len(outcomes)
    if missing:
        outcomes += [said, *[CallOutcome(SandboxVerdict.NOT_RUN)] * (missing - 1)]
    return ProgramRun(
        said.verdict, tuple(outcomes), printed(running), said.error, running.wall, running.cpu
    )


def reported(
    running: Running, failures: Mapping[str, SandboxVerdict] = OF_A_CALL
) -> CallOutcome | None:
    """Return the next outcome of a run: NONSENSE if unreadable, None if the run ended."""
    line = running.line()
    return None if line is None else outcome_of(line, failures) or NONSENSE


def unanswered(running: Running) -> CallOutcome:
    """Return the outcome of a run that ended early."""
    ended = ending(running)
    if ended.verdict is SandboxVerdict.OK:
        return CallOutcome(SandboxVerdict.KILLED, error="it ended before its calls were done")
    return ended


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
        return CallOutcome(SandboxVerdict.OK)
    try:
        return CallOutcome(SandboxVerdict.OK, serialization.loads(said["value"].encode()))
    except (NotPlainError, UnicodeEncodeError):
        return None


def ending(running: Running) -> CallOutcome:
    """Return the outcome of the process of a finished run."""
    limits, status = running.worker.limits, running.status or 0
    if running.flooded:
        most = limits.output if running.flooded == "output" else limits.results
        return CallOutcome(
            SandboxVerdict.OUTPUT, error=f"more than {most} bytes of {running.flooded}"
        )
    if running.cause == zygote.TIME_UP:
        return CallOutcome(SandboxVerdict.TIMEOUT, error="its time was up")
    if not os.WIFSIGNALED(status):
        return CallOutcome(SandboxVerdict.OK)
    number = os.WTERMSIG(status)
    # The kernel enforces the limit in ticks and reports exact times, so the two may differ.
    if number == signal.SIGXCPU or (number == signal.SIGKILL and running.cpu >= limits.cpu * 0.5):
        return CallOutcome(
            SandboxVerdict.TIMEOUT, error=f"more than {limits.cpu} seconds of computing"
        )
    names = {each.value: each.name for each in signal.Signals}
    return CallOutcome(SandboxVerdict.KILLED, error=f"ended by signal {names.get(number, number)}")


def printed(running: Running) -> str:
    """Return the output of a run without control characters, cut at its limit."""
    return printable(running.printed.decode(errors="replace"))[: running.worker.limits.output]


def judged(
    program: Running, start_trial: Callable[[], Running], functions: Collection[str]
) -> ProgramRun:
    """Run a test on a program that is being loaded, and end both processes."""
    with program:
        said = reported(program, OF_A_PROGRAM) or unanswered(program)
        if said.verdict is SandboxVerdict.OK:
            with start_trial() as trial:
                said = _tried(program, trial, functions)
                trial.stop()
                trial.finish()
        program.stop()
        program.finish()
    return ProgramRun(said.verdict, (), printed(program), said.error, program.wall, program.cpu)


def _tried(program: Running, trial: Running, functions: Collection[str]) -> CallOutcome:
    failed: CallOutcome | None = None
    while (line := trial.line()) is not None:
        asked = _asked(line, functions)
        if asked is None:
            said = outcome_of(line, OF_A_PROGRAM) or NONSENSE
            break
        program.send(asked + b"\n")
        answer = reported(program) or unanswered(program)
        failed = None if answer.verdict is SandboxVerdict.OK else answer
        trial.send(answered(answer) + b"\n")
    else:
        said = unanswered(trial)
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
