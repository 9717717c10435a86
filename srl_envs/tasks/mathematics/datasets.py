"""Datasets of mathematical problems, in the layouts of GSM8K and of MATH.

GSM8K (Cobbe et al. 2021): {"question", "answer"}, the final number after "####".
MATH (Hendrycks et al. 2021): {"problem", "solution", "level": "Level 3", "type": "Algebra"}, the
final answer in the last \\boxed{...} of the solution, or under "answer" where that is given.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from srl_envs.errors import EnvConfigError
from srl_envs.loading import read_rows, text_of
from srl_envs.tasks.grading import boxed
from srl_envs.tasks.problem import Problem

MARK = "####"
LAYOUTS = '{"question", "answer": "... #### 42"} or {"problem", "solution": "... \\\\boxed{42}"}'
_LEVEL = re.compile(r"Level ([1-5])")


def load(path: str | Path) -> tuple[Problem, ...]:
    """All problems of a file, in its order; empty lines are passed over.

    Raises EnvConfigError, with the line's number, for what is no problem of either layout.
    """
    problems = read_rows(path, "problems", _problem)
    if not problems:
        raise EnvConfigError(f"{path} holds no problem: give lines of {LAYOUTS}")
    return tuple(problems)


def _problem(row: Any, number: int) -> Problem:
    if not isinstance(row, dict):
        raise EnvConfigError(f"it must be an object, got {row!r:.40}")
    if "question" in row:
        question, family, difficulty = text_of(row, "question"), "GSM8K", 1
        answer = _after_mark(text_of(row, "answer"))
    elif "problem" in row:
        question = text_of(row, "problem")
        family = text_of(row, "type") if "type" in row else "MATH"
        answer = text_of(row, "answer") if "answer" in row else _in_box(text_of(row, "solution"))
        level = _LEVEL.fullmatch(str(row.get("level", "")))
        difficulty = int(level[1]) if level else 1  # a few of MATH's are 'Level ?'
    else:
        raise EnvConfigError(f"it has neither question nor problem: give lines of {LAYOUTS}")
    return Problem(question.strip(), answer, difficulty, info={"family": family, "line": number})


def _after_mark(answer: str) -> str:
    _, mark, last = answer.rpartition(MARK)
    final = last.strip()
    if not mark or not final:
        raise EnvConfigError(f"answer must end in '{MARK} 42', got {answer[-40:]!r}")
    return final


def _in_box(solution: str) -> str:
    found = [held.strip() for held in boxed(solution)]
    if not found or not found[-1]:
        raise EnvConfigError(
            f"solution must hold its answer in \\boxed{{}}, got {solution[-40:]!r}"
        )
    return found[-1]
