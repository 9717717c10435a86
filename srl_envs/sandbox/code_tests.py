"""Tests written as code: test and tested program in two processes that exchange plain data.

The test is a program of its own in a run of its own. What it calls is answered by another run, in
which the tested program is; every value passes through here, where it is read and written anew.
So nothing of the tested program, no object, no class, no patched builtin, is ever in the process
in which the test decides.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection

from srl_envs.sandbox.errors import NotPlainError
from srl_envs.sandbox.guest import serialization
from srl_envs.sandbox.report import (
    NONSENSE,
    OF_A_PROGRAM,
    outcome_of,
    printed,
    reported,
    unanswered,
)
from srl_envs.sandbox.results import Outcome, Run, Verdict
from srl_envs.sandbox.worker import Running


def judged(program: Running, start_trial: Callable[[], Running], functions: Collection[str]) -> Run:
    """The test's verdict on a program that is being loaded; both processes end with it."""
    with program:
        said = reported(program, OF_A_PROGRAM) or unanswered(program)
        if said.verdict is Verdict.OK:
            with start_trial() as trial:
                said = _tried(program, trial, functions)
                trial.stop()
                trial.finish()
        program.stop()
        program.finish()
    return Run(said.verdict, (), printed(program), said.error, program.wall, program.cpu)


def _tried(program: Running, trial: Running, functions: Collection[str]) -> Outcome:
    failed: Outcome | None = None
    while (line := trial.line()) is not None:
        asked = _asked(line, functions)
        if asked is None:
            said = outcome_of(line, OF_A_PROGRAM) or NONSENSE
            break
        program.send(asked + b"\n")
        answer = reported(program) or unanswered(program)
        failed = None if answer.verdict is Verdict.OK else answer
        trial.send(answered(answer) + b"\n")
    else:
        said = unanswered(trial)
    if said.verdict is Verdict.ERROR and said.error.startswith("AssertionError"):
        return Outcome(Verdict.WRONG, error=said.error)
    # A test that fails because the program did not answer has only that to say.
    return failed if failed is not None and said.verdict is not Verdict.OK else said


def _asked(line: bytes, functions: Collection[str]) -> bytes | None:
    """A call in a trial's report, written anew; None where the line is something else."""
    try:
        said = json.loads(line)
        function, args, kwargs = serialization.loads(said["call"].encode())
        return serialization.dumps((function, args, kwargs)) if function in functions else None
    except (NotPlainError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def answered(answer: Outcome) -> bytes:
    """What a trial is told of a call's outcome."""
    if answer.verdict is not Verdict.OK:
        return json.dumps({"error": answer.error}).encode()
    return json.dumps({"value": serialization.dumps(answer.value).decode()}).encode()
