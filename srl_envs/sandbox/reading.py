"""A finished run's report, read: whatever the program wrote there, something sensible comes out."""

from __future__ import annotations

import json
import os
import signal

from srl_envs.sandbox import plain, zygote
from srl_envs.sandbox.errors import NotPlainError
from srl_envs.sandbox.verdicts import Outcome, Run, Verdict
from srl_envs.sandbox.worker import Running

WORDS = 400  # characters of an error
NONSENSE = "what it reported cannot be read"

_FAILURES = {each.value: each for each in (Verdict.ERROR, Verdict.SYNTAX, Verdict.MEMORY)}


def read_run(running: Running, calls: int) -> Run:
    """What a finished run of so many calls came to. Never raises for what the program did."""
    ended = ending(running)
    reports = [outcome_of(bytes(line)) for line in running.received.split(b"\n")[:-1]]
    partial = len(running.received) and not running.received.endswith(b"\n")
    nonsense = None in reports or len(reports) > calls + 1
    if nonsense or (partial and ended.verdict is Verdict.OK):
        ended, reports = Outcome(Verdict.KILLED, error=NONSENSE), []
    known = [report for report in reports if report is not None]
    if known and known[0].verdict is not Verdict.OK:  # it did not get as far as its calls
        ended, known = known[0], known[:1]
    if ended.verdict is Verdict.OK and len(known) <= calls:
        ended = Outcome(Verdict.KILLED, error="it ended before its calls were done")
    outcomes = known[1:]
    if len(outcomes) < calls:
        outcomes += [ended, *[Outcome(Verdict.NOT_RUN)] * (calls - len(outcomes) - 1)]
    return Run(
        ended.verdict,
        tuple(outcomes),
        readable(running.printed.decode(errors="replace")),
        ended.error,
        running.wall,
        running.cpu,
    )


def outcome_of(line: bytes) -> Outcome | None:
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
        verdict = _FAILURES.get(said.get("verdict", "error"))
        if verdict is None:
            return None
        return Outcome(verdict, error=readable(said["error"])[:WORDS])
    if "value" not in said:
        return Outcome(Verdict.OK)
    try:
        return Outcome(Verdict.OK, plain.loads(said["value"].encode()))
    except (NotPlainError, UnicodeEncodeError):
        return None


def ending(running: Running) -> Outcome:
    """How a finished run's process ended."""
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


def readable(text: str) -> str:
    """The text without what could act on a terminal or break an encoding."""
    kept = (c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text)
    return "".join(kept)
