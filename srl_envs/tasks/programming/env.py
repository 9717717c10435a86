"""Programming: functions to write, run against tests in the sandbox.

Problems are generated (srl_envs.tasks.programming.generators), with difficulties 1 to 5, or are
from a file in the layout of HumanEval or MBPP. Some tests are visible, the others hidden. Programs
run in the sandbox (docs/environments/sandbox.md).
"""

from __future__ import annotations

import math
import os
import re
import weakref
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from srl_envs import loading
from srl_envs.errors import EnvConfigError
from srl_envs.sandbox import LEVELS, Limits, ProgramRun, Sandbox, SandboxVerdict
from srl_envs.tasks.base import Attempt, Grade, Problem, Task, TaskEnv, pick
from srl_envs.tasks.programming import datasets
from srl_envs.tasks.programming.generators import FAMILIES, RETURNS, problem
from srl_envs.text import ParseFailure, Samples
from srl_envs.validation import check_choice, number_between, parallel_form, some_of

SYNTAX = 0.1
"""Part of a score for a program that is Python."""
WEIGHTS = {1: (0.9,), 2: (0.3, 0.6)}
"""Parts of a score for the passed visible and hidden tests, by the number of these kinds."""
RULES = "You are asked for a program in Python."
FORM = "Answer with the code alone, or put it between ```python and ```."
WALL = 5.0  # seconds that a program and all its tests may take
MOST_RECORDED_WALL = 60.0  # seconds that a record of others may ask for
MINIMUM = "filtered"  # level of protection, where no other is asked for
SHOWN = 300  # characters of what a program returned

Run = tuple[ProgramRun, Sequence[SandboxVerdict], str]
"""Run, the verdict of each test, and a description of the first visible test that fails."""
_FENCED = re.compile(r"```(?:python|py)?[ \t]*\r?\n(.*?)```", re.DOTALL | re.IGNORECASE)
_sandboxes: weakref.WeakValueDictionary[tuple[Any, ...], Sandbox] = weakref.WeakValueDictionary()


class Programming(Task):
    """The task of code_v0: generated problems of `families`, or given `problems`."""

    name: ClassVar[str] = "code_v0"

    def __init__(
        self,
        sandbox: Sandbox,
        families: Sequence[str] | str | None = None,
        problems: Sequence[Problem] | None = None,
    ) -> None:
        self.sandbox = sandbox
        self.families = some_of("families", families, FAMILIES)
        self.problems = None if problems is None else tuple(problems)
        if self.problems is not None:
            self.difficulties = 1, 1
            self.split = "any"
        else:
            levels = [level for family in self.families for level in FAMILIES[family]]
            self.difficulties = min(levels), max(levels)

    def rules(self) -> str:
        return RULES

    def how_to_answer(self) -> str:
        return FORM

    def draw(self, rng: np.random.Generator, difficulty: int) -> Problem:
        if self.problems is not None:
            return pick(rng, self.problems)
        levels = {level for family in self.families for level in FAMILIES[family]}
        nearest = min(levels, key=lambda level: (abs(level - difficulty), level))
        family = pick(rng, [family for family in self.families if nearest in FAMILIES[family]])
        return problem(family, FAMILIES[family][nearest], rng, nearest)

    def read(self, text: str) -> str | ParseFailure:
        blocks = _FENCED.findall(text)
        code: str = blocks[-1] if blocks else text
        return code.rstrip() if code.strip() else ParseFailure("the code was empty")

    def grade(self, problem: Problem, answer: str) -> Grade:
        grade = self._judge if "functions" in problem.data else self._check
        run, verdicts, failing = grade(problem.data, _program(problem, answer))
        return _graded(run, verdicts, len(problem.data["visible"]), failing)

    def sample_answers(self, rng: np.random.Generator, attempt: Attempt, count: int) -> Samples:
        if not attempt.problem.data.get("prefix"):
            return None
        return tuple(RETURNS.values())[:count]

    def _check(self, data: Mapping[str, Any], program: str) -> Run:
        """Run calls, and compare the returned values."""
        report = self.sandbox.check(program, (*data["visible"], *data["hidden"]))
        shown = zip(data["visible"], report.verdicts, report.run.outcomes, strict=False)
        for test, verdict, outcome in shown:
            if verdict is SandboxVerdict.WRONG:
                got = repr(outcome.value)
                got = got if len(got) <= SHOWN else f"{got[:SHOWN]}..."
                failing = f"{test.call} gave {got}, expected {test.expected!r}."
                return report.run, report.verdicts, failing
            if verdict is not SandboxVerdict.OK:
                why = outcome.error or verdict
                failing = f"{test.call} should give {test.expected!r}, but: {why}."
                return report.run, report.verdicts, failing
        return report.run, report.verdicts, ""

    def _judge(self, data: Mapping[str, Any], program: str) -> Run:
        """Run tests that are code, each in a separate run."""
        trials = (*data["visible"], *data["hidden"])
        runs: list[ProgramRun] = []
        for trial in trials:
            runs.append(self.sandbox.judge(program, trial, data["functions"]))
            if runs[-1].verdict is SandboxVerdict.SYNTAX:
                return runs[-1], [SandboxVerdict.SYNTAX] * len(trials), ""
        failing = [
            f"{test} fails: {run.error or run.verdict}."
            for test, run in zip(data["shown"], runs, strict=False)
            if run.verdict is not SandboxVerdict.OK
        ]
        return runs[0], [run.verdict for run in runs], failing[0] if failing else ""


def _program(problem: Problem, answer: str) -> str:
    """Return the answer after the beginning in the question, unless it is the whole function."""
    prompt = problem.data.get("prompt", "")
    begun = prompt or problem.data.get("prefix", "")
    entry = problem.data.get("entry", "f")
    if not begun:
        return answer
    if re.search(rf"^def[ \t]+{re.escape(entry)}\b", answer, re.MULTILINE):
        return f"{prompt[: prompt.rfind(f'def {entry}')]}{answer}" if prompt else answer
    return f"{begun}{answer}" if prompt else f"{begun}{answer.strip()}"


def _graded(run: ProgramRun, verdicts: Sequence[SandboxVerdict], shown: int, failing: str) -> Grade:
    """Return the grade of a program, of which the first tests were shown."""
    passed = [verdict is SandboxVerdict.OK for verdict in verdicts]
    visible, hidden = passed[:shown], passed[shown:]
    parsed = run.verdict is not SandboxVerdict.SYNTAX
    parts = [tests for tests in (visible, hidden) if tests]
    score = SYNTAX * parsed
    for tests, weight in zip(parts, WEIGHTS[len(parts)], strict=True):
        score += weight * (sum(tests) / len(tests))
    wrong = len(hidden) - sum(hidden)
    if all(passed):
        feedback = "All tests pass."
    elif not parsed:
        feedback = f"That is not Python: {run.error}."
    elif failing:
        feedback = failing
    elif visible:
        feedback = f"The tests you were shown pass, but {wrong} of {len(hidden)} others fail."
    else:
        feedback = f"{wrong} of {len(hidden)} tests fail."
    info = {
        "verdict": str(run.verdict),
        "visible_passed": sum(visible),
        "visible_tests": len(visible),
        "hidden_passed": sum(hidden),
        "hidden_tests": len(hidden),
    }
    score = 1.0 if all(passed) else min(score, 1.0)
    return Grade(score, all(passed), feedback, info=info)


def _sandbox(minimum: str, wall: float) -> Sandbox:
    """Return the sandbox that all environments of this process with these settings share."""
    settings = os.getpid(), minimum, wall
    found = _sandboxes.get(settings)
    if found is None:
        cpu = max(1, math.ceil(wall))
        found = _sandboxes[settings] = Sandbox(Limits(wall=wall, cpu=cpu), minimum=minimum)
    return found


@partial(parallel_form, passes_on_to=TaskEnv)
def parallel_env(
    *,
    families: Sequence[str] | str | None = None,
    path: str | os.PathLike[str] | None = None,
    sandbox_minimum: str = MINIMUM,
    wall: float = WALL,
    **settings: Any,
) -> TaskEnv:
    """Return the environment as a PettingZoo ParallelEnv.

    Args:
        families: Names of FAMILIES, by default all.
        path: JSONL file of problems in the layout of HumanEval or MBPP, instead of families.
        sandbox_minimum: Lowest level of protection (docs/environments/sandbox.md).
        wall: Seconds for a program with all its tests.
        settings: Further arguments of TaskEnv.

    Raises:
        EnvConfigError: An argument is invalid.
        SandboxError: The level of protection is not available.
    """
    if path is not None and families is not None:
        raise EnvConfigError(
            f"families are generated and path is a file, got {families!r} and {path!r}: give one"
        )
    seconds = loading.at_most(number_between("wall", wall, 0.01), MOST_RECORDED_WALL, "wall")
    minimum = check_choice("sandbox_minimum", sandbox_minimum, LEVELS)
    if loading.is_closed():  # The options are from a record of others.
        minimum = max(minimum, MINIMUM, key=LEVELS.index)
    problems = None if path is None else datasets.load(loading.place(path, "path"))
    return TaskEnv(Programming(_sandbox(minimum, seconds), families, problems), **settings)
