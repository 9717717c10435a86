"""Mathematics: questions with one right answer, generated or from a file.

Families: arithmetic, algebra (equations and inequalities), word problems and multi-step problems,
each of difficulty 1 to 5 (srl_envs.tasks.mathematics.generators). Exact arithmetic
decides if an answer is right (srl_envs.tasks.grading).
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from srl_envs import loading
from srl_envs.errors import EnvConfigError
from srl_envs.tasks import grading
from srl_envs.tasks.base import Attempt, Grade, Problem, Task, TaskEnv, pick
from srl_envs.tasks.grading import final_answer
from srl_envs.tasks.mathematics.generators import FAMILIES
from srl_envs.text import ParseFailure, Samples
from srl_envs.validation import parallel_form, some_of

RULES = "You are asked a question of mathematics."
FORM = (
    "End with a line that holds your final answer alone, such as Answer: 42. Write numbers out "
    "(42, -3.5 or 3/4); decimals that do not end need at least four places."
)
TOO_FAR = 4  # steps that a warm start counts past the end, at most
LARGEST_GUESS = 18  # of the answers that a warm start gives
MARK = "####"
LAYOUTS = '{"question", "answer": "... #### 42"} or {"problem", "solution": "... \\\\boxed{42}"}'


class Mathematics(Task):
    """The task of math_v0: generated problems of `families`, or given `problems`."""

    name: ClassVar[str] = "math_v0"

    def __init__(
        self,
        families: Sequence[str] | str | None = None,
        problems: Sequence[Problem] | None = None,
    ) -> None:
        self.families = some_of("families", families, FAMILIES)
        self.problems = None if problems is None else tuple(problems)
        if self.problems is not None:
            levels = [problem.difficulty for problem in self.problems]
            self.difficulties = min(levels), max(levels)
            self.split = "any"

    def rules(self) -> str:
        return RULES

    def how_to_answer(self) -> str:
        return FORM

    def draw(self, rng: np.random.Generator, difficulty: int) -> Problem:
        if self.problems is not None:
            fitting = [one for one in self.problems if one.difficulty == difficulty]
            return pick(rng, fitting or self.problems)
        return FAMILIES[pick(rng, self.families)](rng, difficulty)

    def read(self, text: str) -> str | ParseFailure:
        answer = final_answer(text)
        if isinstance(answer, str) and len(answer) > grading.LONGEST:
            return ParseFailure(f"an answer may have {grading.LONGEST} characters")
        return answer

    def grade(self, problem: Problem, answer: str) -> Grade:
        units = grading.words_of(problem.question)
        right = grading.same_answer(str(problem.answer), answer, units)
        return Grade.right() if right else Grade.wrong()

    def sample_answers(self, rng: np.random.Generator, attempt: Attempt, count: int) -> Samples:
        """Return answers in the right form that contain no information on the truth.

        In one-digit arithmetic the answers show their working: 3 + 5, 4 + 4, 5 + 3, and so on,
        stopped after any number of steps. In all other problems they are numbers.
        """
        problem = attempt.problem
        if problem.info.get("family") == "arithmetic" and problem.difficulty == 1:
            first, sign, second, *_ = problem.question.split()
            return _counted(int(first), sign, int(second))[:count]
        return tuple(f"Answer: {number}" for number in range(LARGEST_GUESS + 1))[:count]


def _counted(first: int, sign: str, second: int) -> tuple[str, ...]:
    found, line = [], f"{first} {sign} {second}"
    for step in range(second + TOO_FAR + 1):
        now = first + step if sign == "+" else first - step
        line += f", {now} {sign} {second - step}" if step else ""
        found.append(f"{line}\nAnswer: {now}")
    return tuple(found)


def load_problems(path: str | Path) -> tuple[Problem, ...]:
    r"""Load problems from a JSONL file in the layout of GSM8K or MATH.

    GSM8K (Cobbe et al. 2021): {"question", "answer"}, with the final number after "####".
    MATH (Hendrycks et al. 2021): {"problem", "solution", "level": "Level 3", "type": "Algebra"},
    with the final answer in the last `\boxed{...}` of the solution, or under "answer".

    Raises:
        EnvConfigError: A line has neither layout; the message contains its number.
    """
    problems = tuple(loading.read_rows(path, "problems", _problem))
    if not problems:
        raise EnvConfigError(f"{path} holds no problem: give lines of {LAYOUTS}")
    return problems


def _problem(row: Any, number: int) -> Problem:
    if not isinstance(row, dict) or not {"question", "problem"} & set(row):
        raise EnvConfigError(f"{row!r:.40} has neither layout: give lines of {LAYOUTS}")
    if "question" in row:
        question, family, level = loading.text_of(row, "question"), "GSM8K", None
        _, mark, answer = loading.text_of(row, "answer").rpartition(MARK)
        answer = answer if mark else ""
    else:
        question, family = loading.text_of(row, "problem"), str(row.get("type", "MATH"))
        boxes = grading.boxed(str(row.get("solution", "")))
        answer = str(row.get("answer", boxes[-1] if boxes else ""))
        level = re.fullmatch(r"Level ([1-5])", str(row.get("level", "")))
    if not answer.strip():
        raise EnvConfigError(f"it has no final answer: give lines of {LAYOUTS}")
    difficulty = int(level[1]) if level else 1  # a few of MATH's are 'Level ?'
    info = {"family": family, "line": number}
    return Problem(question.strip(), answer.strip(), difficulty, info=info)


@partial(parallel_form, passes_on_to=TaskEnv)
def parallel_env(
    *,
    families: Sequence[str] | str | None = None,
    path: str | os.PathLike[str] | None = None,
    **settings: Any,
) -> TaskEnv:
    """Return the environment as a PettingZoo ParallelEnv.

    Args:
        families: Names of FAMILIES, by default all.
        path: JSONL file of problems in the layout of GSM8K or MATH, instead of families.
        settings: Further arguments of TaskEnv.

    Raises:
        EnvConfigError: An argument is invalid.
    """
    if path is not None and families is not None:
        raise EnvConfigError(
            f"families are generated and path is a file, got {families!r} and {path!r}: give one"
        )
    problems = None if path is None else load_problems(loading.place(path, "path"))
    return TaskEnv(Mathematics(families, problems), **settings)
