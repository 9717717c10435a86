"""Parsing of a run's report, which the program may have written itself."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping, Sequence

from srl_envs.sandbox.errors import NotPlainError
from srl_envs.sandbox.guest import serialization, zygote
from srl_envs.sandbox.results import Outcome, Run, Verdict
from srl_envs.sandbox.worker import Running
from srl_envs.untrusted import printable

WORDS = 400  # characters of an error
NONSENSE = Outcome(Verdict.KILLED, error="what it reported cannot be read")
OF_A_CALL = {each.value: each for each in (Verdict.ERROR, Verdict.MEMORY)}
"""What a program may say of a call that failed; of its loading, also that it is no Python."""
OF_A_PROGRAM = {**OF_A_CALL, Verdict.SYNTAX.value: Verdict.SYNTAX}


def run_calls(running: Running, calls: Sequence[bytes]) -> Run:
    """Give a started program its calls, each when the one before is answered, until it ends.

    So nothing that it says of one call can tell of a later one. Never raises for what it does.
    """
    if not calls:
        running.hang_up()
    said = reported(running, OF_A_PROGRAM)
    outcomes: list[Outcome] = []
    if said is not None and said.verdict is Verdict.OK:
        for call in calls:
            running.send(call + b"\n")
            said = reported(running)
            if said is None or said is NONSENSE:
                break
            outcomes.append(said)
        else:
            said = Outcome(Verdict.OK)
    running.hang_up()
    if said is NONSENSE:
        running.stop()
    running.finish()
    if said is None:
        said = unanswered(running)
    elif said.verdict is Verdict.OK:
        said = NONSENSE if running.received else ending(running)
    missing = len(calls) - len(outcomes)
    if missing:
        outcomes += [said, *[Outcome(Verdict.NOT_RUN)] * (missing - 1)]
    return Run(
        said.verdict, tuple(outcomes), printed(running), said.error, running.wall, running.cpu
    )


def reported(running: Running, failures: Mapping[str, Verdict] = OF_A_CALL) -> Outcome | None:
    """The next that a run says; NONSENSE for what cannot be read, None where it ended instead."""
    line = running.line()
    return None if line is None else outcome_of(line, failures) or NONSENSE


def unanswered(running: Running) -> Outcome:
    """How a run ended that had more to say."""
    ended = ending(running)
    if ended.verdict is Verdict.OK:
        return Outcome(Verdict.KILLED, error="it ended before its calls were done")
    return ended


def outcome_of(line: bytes, failures: Mapping[str, Verdict] = OF_A_CALL) -> Outcome | None:
    """One line of a report; None where it is none."""
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
        return None if verdict is None else Outcome(verdict, error=error)
    if "value" not in said:
        return Outcome(Verdict.OK)
    try:
        return Outcome(Verdict.OK, serialization.loads(said["value"].encode()))
    except (NotPlainError, UnicodeEncodeError):
        return None


def ending(running: Running) -> Outcome:
    """The end of a finished run's process."""
    limits, status = running.worker.limits, running.status or 0
    if running.flooded:
        most = limits.output if running.flooded == "output" else limits.results
        return Outcome(Verdict.OUTPUT, error=f"more than {most} bytes of {running.flooded}")
    if running.cause == zygote.TIME_UP:
        return Outcome(Verdict.TIMEOUT, error="its time was up")
    if not os.WIFSIGNALED(status):
        return Outcome(Verdict.OK)
    number = os.WTERMSIG(status)
    # The kernel counts ticks for the limit, but what it reports is exact: by half is near enough.
    if number == signal.SIGXCPU or (number == signal.SIGKILL and running.cpu >= limits.cpu * 0.5):
        return Outcome(Verdict.TIMEOUT, error=f"more than {limits.cpu} seconds of computing")
    names = {each.value: each.name for each in signal.Signals}
    return Outcome(Verdict.KILLED, error=f"ended by signal {names.get(number, number)}")


def printed(running: Running) -> str:
    """A run's output, made safe to show and no longer than its limit."""
    return printable(running.printed.decode(errors="replace"))[: running.worker.limits.output]
