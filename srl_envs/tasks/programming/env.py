"""Programming: functions to write, run against tests in the sandbox.

Problems are generated (srl_envs.tasks.programming.generators), each of difficulty 1 to 5, or come
from a file in HumanEval's or MBPP's layout. Some tests are shown, the others are not. Nothing that
a program does reaches this process (docs/environments/sandbox.md).
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
from srl_envs.sandbox import LEVELS, Limits, Run, Sandbox, Test, TestReport, Verdict
from srl_envs.tasks.base import Task, TaskEnv
from srl_envs.tasks.problem import Attempt, Grade, Problem, pick
from srl_envs.tasks.programming import datasets
from srl_envs.tasks.programming.generators import FAMILIES, RETURNS, problem
from srl_envs.text import ParseFailure, Samples
from srl_envs.validation import check_choice, number_between, parallel_form, some_of

SYNTAX, VISIBLE, HIDDEN = 0.1, 0.3, 0.6
"""A score's parts: the program is Python; its share of the shown and of the hidden tests passed.
Where a problem has tests of one kind only, they count for both."""
RULES = "You are asked for a program in Python."
FORM = "Answer with the code alone, or put it between ```python and ```."
WALL = 5.0  # seconds that a program and all its tests may take
MOST_RECORDED_WALL = 60.0  # seconds that a record of others may ask for
MINIMUM = "filtered"  # level of protection, where no other is asked for
SHOWN = 300  # characters of what a program returned

_FENCED = re.compile(r"```(?:python|py)?[ \t]*\r?\n(.*?)```", re.DOTALL | re.IGNORECASE)
_OF_A_TEST = re.compile(r"^AssertionError: | \(line \d+\)$")
_sandboxes: weakref.WeakValueDictionary[tuple[Any, ...], Sandbox] = weakref.WeakValueDictionary()


class Programming(Task):
    """The task. `families` are names of FAMILIES, or `problems` are those of a file."""

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
            self.split = "any"  # whoever gives a file has chosen its problems
        else:
            levels = [level for family in self.families for level in FAMILIES[family]]
            self.difficulties = min(levels), max(levels)

    def rules(self) -> str:
        """The instructions."""
        return RULES

    def how_to_answer(self) -> str:
        """The form of an answer."""
        return FORM

    def draw(self, rng: np.random.Generator, difficulty: int) -> Problem:
        """A problem of one of the families, or of the file."""
        if self.problems is not None:
            return pick(rng, self.problems)
        levels = {level for family in self.families for level in FAMILIES[family]}
        nearest = min(levels, key=lambda level: (abs(level - difficulty), level))
        fitting = [
            (family, template)
            for family in self.families
            for template in FAMILIES[family].get(nearest, ())
        ]
        family, template = pick(rng, fitting)
        return problem(family, template, rng, nearest)

    def read(self, text: str) -> str | ParseFailure:
        """The last fenced block's code, or the whole text."""
        blocks = _FENCED.findall(text)
        code: str = blocks[-1] if blocks else text
        return code.rstrip() if code.strip() else ParseFailure("the code was empty")

    def grade(self, problem: Problem, answer: str) -> Grade:
        """The weighted shares of tests passed; see SYNTAX, VISIBLE and HIDDEN."""
        program = _program(problem, answer)
        if "functions" in problem.data:
            return self._judged(problem, program)
        visible, hidden = problem.data["visible"], problem.data["hidden"]
        report = self.sandbox.check(program, (*visible, *hidden))
        shown = report.verdicts[: len(visible)]
        said = _first_failure(report, visible)
        return _graded(report.run, shown, report.verdicts[len(visible) :], said)

    def sample_answers(self, rng: np.random.Generator, attempt: Attempt, count: int) -> Samples:
        """Any of the expressions of the smallest family; None elsewhere."""
        if not attempt.problem.data.get("prefix"):
            return None
        return tuple(RETURNS.values())[:count]

    def _judged(self, problem: Problem, program: str) -> Grade:
        """Tests that are code, each judged apart; none after a program that is no Python."""
        data = problem.data
        runs: list[Run] = []
        trials = (*data["visible"], *data["hidden"])
        for trial in trials:
            runs.append(self.sandbox.judge(program, trial, data["functions"]))
            if runs[-1].verdict is Verdict.SYNTAX:
                return _graded(runs[-1], [], [Verdict.SYNTAX] * len(trials), "")
        shown, verdicts, said = len(data["visible"]), [run.verdict for run in runs], ""
        for test, run in zip(data["shown"], runs, strict=False):
            if run.verdict is not Verdict.OK:
                said = f"{test} fails: {run.error or run.verdict}."
                break
        if not said and any(run.verdict is not Verdict.OK for run in runs):
            said = self._failing_example(data, program)
        return _graded(runs[0], verdicts[:shown], verdicts[shown:], said)

    def _failing_example(self, data: Mapping[str, Any], program: str) -> str:
        """The first of the question's examples that fails: told, but no part of the score."""
        for example, trial in data.get("examples", ()):
            run = self.sandbox.judge(program, trial, data["functions"])
            if run.verdict is Verdict.WRONG:
                return f"{example} fails: {_OF_A_TEST.sub('', run.error)}."
            if run.verdict is not Verdict.OK:
                return f"{example} fails: {run.error or run.verdict}."
        return ""


def _program(problem: Problem, answer: str) -> str:
    """The answer with what the question began, unless it is the whole function."""
    prompt = problem.data.get("prompt", "")
    begun = prompt or problem.data.get("prefix", "")
    entry = problem.data.get("entry", "f")
    if not begun:
        return answer
    if re.search(rf"^def[ \t]+{re.escape(entry)}\b", answer, re.MULTILINE):
        return f"{prompt[: prompt.rfind(f'def {entry}')]}{answer}" if prompt else answer
    return f"{begun}{answer}" if prompt else f"{begun}{answer.strip()}"


def _graded(run: Run, visible: Sequence[Verdict], hidden: Sequence[Verdict], failing: str) -> Grade:
    parsed = run.verdict is not Verdict.SYNTAX
    shares = [_passed(tests) / len(tests) for tests in (visible, hidden) if tests]
    if len(shares) == 2:
        score = SYNTAX * parsed + VISIBLE * shares[0] + HIDDEN * shares[1]
    else:
        score = SYNTAX * parsed + (VISIBLE + HIDDEN) * shares[0]
    every = [*visible, *hidden]
    correct = all(verdict is Verdict.OK for verdict in every)
    if correct:
        feedback = "All tests pass."
    elif not parsed:
        feedback = f"That is not Python: {run.error}."
    elif failing:
        feedback = failing
    else:
        wrong = len(hidden) - _passed(hidden)
        feedback = f"The tests you were shown pass, but {wrong} of {len(hidden)} others fail."
        if not visible:
            feedback = f"{wrong} of {len(hidden)} tests fail."
    info = {
        "verdict": str(run.verdict),
        "visible_passed": _passed(visible),
        "visible_tests": len(visible),
        "hidden_passed": _passed(hidden),
        "hidden_tests": len(hidden),
    }
    return Grade(1.0 if correct else min(score, 1.0), correct, feedback, info=info)


def _passed(verdicts: Sequence[Verdict]) -> int:
    return sum(verdict is Verdict.OK for verdict in verdicts)


def _first_failure(report: TestReport, visible: Sequence[Test]) -> str:
    """The first shown test that fails: its input, what it should give and what it gave."""
    for test, verdict, outcome in zip(visible, report.verdicts, report.run.outcomes, strict=False):
        if verdict is Verdict.WRONG:
            got = repr(outcome.value)
            got = got if len(got) <= SHOWN else f"{got[:SHOWN]}..."
            return f"{test.call} gave {got}, expected {test.expected!r}."
        if verdict is not Verdict.OK:
            why = outcome.error or verdict
            return f"{test.call} should give {test.expected!r}, but: {why}."
    return ""


def _sandbox(minimum: str, wall: float) -> Sandbox:
    """One sandbox for all environments of a process that ask for the same; closed with the last."""
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
    """The environment, as a PettingZoo ParallelEnv; see TaskEnv.

    `families` are one or several of FAMILIES, all where not given. `path` is a file of problems in
    HumanEval's or MBPP's layout in their place. A program may take `wall` seconds with all its
    tests, and runs at a level of protection of at least `sandbox_minimum`
    (docs/environments/sandbox.md). Raises EnvConfigError for wrong arguments, and SandboxError
    where that level is not to be had.
    """
    if path is not None and families is not None:
        raise EnvConfigError(
            f"families are generated and path is a file, got {families!r} and {path!r}: give one"
        )
    seconds = loading.at_most(number_between("wall", wall, 0.01), MOST_RECORDED_WALL, "wall")
    minimum = check_choice("sandbox_minimum", sandbox_minimum, LEVELS)
    if loading.is_closed():  # who reads a record is protected as he is by default
        minimum = max(minimum, MINIMUM, key=LEVELS.index)
    problems = None if path is None else datasets.load(loading.place(path, "path"))
    return TaskEnv(Programming(_sandbox(minimum, seconds), families, problems), **settings)
