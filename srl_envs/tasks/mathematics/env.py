"""Mathematics: questions with one right answer, generated or from a file.

Families: arithmetic, algebra (equations, inequalities, expansions), word problems and multi-step
problems, each of difficulty 1 to 5 (srl_envs.tasks.mathematics). An answer is right or not: exact
arithmetic decides (srl_envs.tasks.grading).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from srl_envs import loading
from srl_envs.errors import EnvConfigError
from srl_envs.tasks import expressions, grading
from srl_envs.tasks.base import Attempt, Grade, Problem, Task, TaskEnv
from srl_envs.tasks.grading import final_answer
from srl_envs.tasks.mathematics import algebra, arithmetic, datasets, multi_step, word_problems
from srl_envs.tasks.problem import pick
from srl_envs.text import ParseFailure, Samples
from srl_envs.validation import check_choice, parallel_form, some_of

Draw = Callable[[np.random.Generator, int], Problem]

FAMILIES: Mapping[str, Draw] = MappingProxyType(
    {
        "arithmetic": arithmetic.draw,
        "algebra": algebra.draw,
        "word problems": word_problems.draw,
        "multi-step": multi_step.draw,
    }
)
RULES = "You are asked a question of mathematics."
FORM = (
    "End with a line that holds your final answer alone, such as Answer: 42. Write numbers out "
    "(42, -3.5 or 3/4); decimals that do not end need at least four places."
)
EXPANDED = "That is equal, but not expanded and collected."
GRADERS = ("exact", "math_verify")
TOO_FAR = 4  # steps that a warm start counts past the end, at most
LARGEST_GUESS = 18  # of the answers that a warm start gives


class Mathematics(Task):
    """The task. `families` are names of FAMILIES, or `problems` are those of a file."""

    name: ClassVar[str] = "math_v0"

    def __init__(
        self,
        families: Sequence[str] | str | None = None,
        problems: Sequence[Problem] | None = None,
        grader: str = "exact",
    ) -> None:
        self.grader: str = check_choice("grader", grader, GRADERS)
        if self.grader == "math_verify":
            if problems is None:
                raise EnvConfigError(
                    "grader='math_verify' is for problems of files, and these are generated: give "
                    "a path, or grader='exact'"
                )
            grading.same_by_math_verify("1", "1")  # says so where it is missing
        self.families = some_of("families", families, FAMILIES)
        self.problems = None if problems is None else tuple(problems)
        if self.problems is not None:
            levels = [problem.difficulty for problem in self.problems]
            self.difficulties = min(levels), max(levels)
            self.split = "any"  # whoever gives a file has chosen its problems

    def rules(self) -> str:
        """The instructions."""
        return RULES

    def how_to_answer(self) -> str:
        """The form of an answer."""
        return FORM

    def draw(self, rng: np.random.Generator, difficulty: int) -> Problem:
        """A problem of one of the families, or of the file."""
        if self.problems is not None:
            fitting = [one for one in self.problems if one.difficulty == difficulty]
            return pick(rng, fitting or self.problems)
        return FAMILIES[pick(rng, self.families)](rng, difficulty)

    def read(self, text: str) -> str | ParseFailure:
        """The final answer; in this task it may not be longer than a line."""
        answer = final_answer(text)
        if isinstance(answer, str) and len(answer) > grading.LONGEST:
            return ParseFailure(f"an answer may have {grading.LONGEST} characters")
        return answer

    def grade(self, problem: Problem, answer: str) -> Grade:
        """Right or not; the feedback says no more than that."""
        truth = str(problem.answer)
        if self.grader == "math_verify":
            same = grading.same_by_math_verify(truth, answer)
            return Grade.right() if same else Grade.wrong()
        if not grading.same_answer(truth, answer, grading.words_of(problem.question)):
            return Grade.wrong()
        if problem.data.get("expanded") and not _is_collected(answer, truth):
            return Grade.wrong(EXPANDED)
        return Grade.right()

    def sample_answers(self, rng: np.random.Generator, attempt: Attempt, count: int) -> Samples:
        """Answers in the right form whatever the truth.

        In one-digit arithmetic they show their working, as children do on their fingers: 3 + 5 is
        4 + 4 is 5 + 3, and so on; they stop anywhere, or too late, and when to stop is left to be
        learned. Elsewhere they are numbers.
        """
        problem = attempt.problem
        if problem.info.get("family") == arithmetic.FAMILY and problem.difficulty == 1:
            first, sign, second, *_ = problem.question.split()
            return _counted(int(first), sign, int(second))[:count]
        return tuple(f"Answer: {number}" for number in range(LARGEST_GUESS + 1))[:count]


def _counted(first: int, sign: str, second: int) -> tuple[str, ...]:
    """3 + 5, 4 + 4, 5 + 3, ... stopped after any number of steps, right or not."""
    found = []
    line = f"{first} {sign} {second}"
    for step in range(second + TOO_FAR + 1):
        now = first + step if sign == "+" else first - step
        line += f", {now} {sign} {second - step}" if step else ""
        found.append(f"{line}\nAnswer: {now}")
    return tuple(found)


def _is_collected(answer: str, truth: str) -> bool:
    """Whether an answer that equals the truth is a sum of single terms, no more than needed."""
    try:
        tree = expressions.parse(answer)
    except expressions.Unreadable:  # such as y = 3x + 2, which is equal
        return False
    terms = expressions.terms(tree)
    needed = len(expressions.terms(expressions.parse(truth)))
    return len(terms) <= needed and not any(map(expressions.holds_a_sum, terms))


@partial(parallel_form, passes_on_to=TaskEnv)
def parallel_env(
    *,
    families: Sequence[str] | str | None = None,
    path: str | os.PathLike[str] | None = None,
    grader: str = "exact",
    **settings: Any,
) -> TaskEnv:
    """The environment, as a PettingZoo ParallelEnv; see TaskEnv.

    `families` are one or several of FAMILIES, all where not given. `path` is a file of problems in
    GSM8K's or MATH's layout in their place, whose answers `grader` may leave to "math_verify" (see
    srl_envs.tasks.grading.same_by_math_verify for what that costs). Raises EnvConfigError for
    wrong arguments.
    """
    if path is not None and families is not None:
        raise EnvConfigError(
            f"families are generated and path is a file, got {families!r} and {path!r}: give one"
        )
    problems = None if path is None else datasets.load(loading.place(path, "path"))
    return TaskEnv(Mathematics(families, problems, grader), **settings)
