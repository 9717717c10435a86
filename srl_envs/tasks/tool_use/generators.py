"""Generators of tool-use problems.

The function of a family draws one problem with its needed calls, in one possible order.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from srl_envs.tasks.base import Problem, pick
from srl_envs.tasks.tool_use.builtin_tools import CORPUS
from srl_envs.tasks.tool_use.calculator import calculator
from srl_envs.tasks.tool_use.tools import ToolCall

FILE_NAMES = tuple(f"f{number}.txt" for number in range(1, 9))
FACTS: Mapping[str, str] = {
    "inhabitants": "How many inhabitants has {town}?",
    "founded": "In which year was {town} founded?",
    "bridges": "How many bridges are there in {town}?",
    "height": "How many metres above the sea does {town} lie?",
    "river": "On which river does {town} lie?",
}


@dataclass(frozen=True)
class CallStep:
    """Needed call of a problem, and the evidence that counts as this call."""

    call: ToolCall
    evidence: str
    """Line that the result must have, "" for any. ToolSession has more conditions."""


def _step(tool: str, evidence: str, **arguments: str) -> CallStep:
    return CallStep(ToolCall(tool, arguments), evidence)


def _problem(
    family: str,
    difficulty: int,
    question: str,
    answer: str,
    key: str,
    steps: Sequence[CallStep],
    files: Mapping[str, str] | None = None,
) -> Problem:
    listing = f" Files: {', '.join(sorted(files))}." if files else ""
    return Problem(
        question + listing,
        answer,
        difficulty,
        key=f"{family}: {key}",
        data={"files": files or {}, "steps": tuple(steps)},
        info={"family": family, "calls_needed": len(steps)},
    )


def calculate(rng: np.random.Generator, difficulty: int) -> Problem:
    """Draw a Problem of difficulty 1 to 5: an expression with `difficulty` + 1 numbers."""
    expression = _number(rng, difficulty)
    for _ in range(difficulty):
        mark = "+-*"[rng.integers(3)]
        if rng.random() < 0.3 and " " in expression:
            expression = f"({expression})"
        expression = f"{expression} {mark} {_number(rng, difficulty)}"
    answer = calculator(expression)
    steps = [_step("calculator", answer, expression=expression)]
    question = f"What is {expression}?"
    return _problem("calculate", difficulty, question, answer, expression, steps)


def read(rng: np.random.Generator, difficulty: int) -> Problem:
    """Draw a Problem of difficulty 1 to 5: the number in one of `difficulty` + 1 files."""
    files = _files(rng, difficulty, 1 + difficulty)
    name = pick(rng, list(files))
    steps = [_step("read_file", files[name], path=name)]
    question, key = f"Which number is in {name}?", f"{name} {files[name]}"
    return _problem("read", difficulty, question, files[name], key, steps, files)


def look_up(rng: np.random.Generator, difficulty: int) -> Problem:
    """Draw a Problem of difficulty 1 to 5: a fact about a town, from 3 the length of its river."""
    town = pick(rng, towns())
    steps = [_step("search", town, query=town)]
    if difficulty < 3:
        fact = pick(rng, list(FACTS))
        question, answer = FACTS[fact].format(town=town), _facts()[town][fact]
    else:
        river = f"River {_facts()[town]['river']}"
        steps.append(_step("search", river, query=river))
        question = f"How many kilometres long is the river on which {town} lies?"
        answer = _facts()[river]["length"]
    return _problem("look up", difficulty, question, answer, question, steps)


def read_and_calculate(rng: np.random.Generator, difficulty: int) -> Problem:
    """Draw a Problem of difficulty 1 to 5: a calculation with numbers in files.

    Up to difficulty 2, one number is in a file and one in the question. From 3, all numbers are
    in files.
    """
    marks = ("plus", "+"), ("minus", "-"), ("times", "*")
    word, mark = marks[rng.integers(2 if difficulty == 1 else 3)]
    if difficulty == 1:
        whole = int(rng.integers(10))
        part = int(rng.integers(whole + 1))
        first, last = (whole - part, part) if mark == "+" else (whole, part)
        files, given = {pick(rng, FILE_NAMES): str(first)}, str(last)
    else:
        files = _files(rng, difficulty, 1 + difficulty)
        given = _number(rng, difficulty)
    names = [str(name) for name in rng.permutation(list(files))]
    used = names[: max(1, difficulty - 1)]
    numbers = [files[name] for name in used]
    terms = [f"the number in {name}" for name in used]
    if len(used) == 1:
        numbers.append(given)
        terms.append(given)
    expression = f" {mark} ".join(numbers)
    answer = calculator(expression)
    steps = [_step("read_file", files[name], path=name) for name in used]
    steps.append(_step("calculator", answer, expression=expression))
    question = f"What is {f' {word} '.join(terms)}?"
    return _problem("read and calculate", difficulty, question, answer, expression, steps, files)


def follow(rng: np.random.Generator, difficulty: int) -> Problem:
    """Draw a Problem of difficulty 1 to 5: a chain of `difficulty` + 1 files to read.

    Each contains the name of the next; the last contains the answer. Two other files are unused.
    """
    names = [str(name) for name in rng.permutation(FILE_NAMES)[: difficulty + 3]]
    end = _number(rng, difficulty)
    chain = names[: difficulty + 1]
    files = dict(zip(chain, [*chain[1:], end], strict=True))
    files |= {name: _number(rng, difficulty) for name in names[difficulty + 1 :]}
    steps = [_step("read_file", files[name], path=name) for name in chain]
    question = (
        f"{chain[0]} holds the name of another file, and so on until a file holds a number. "
        "Which number is it?"
    )
    return _problem("follow", difficulty, question, end, f"{' '.join(chain)} {end}", steps, files)


def asked(
    question: str,
    answer: str,
    *,
    files: Mapping[str, str] | None = None,
    required_tools: Sequence[str] = (),
    difficulty: int = 1,
) -> Problem:
    """Return a user-defined Problem; EnvConfigError if the question is blank or too long.

    Args:
        question: Question, which should name the files.
        answer: Right answer.
        files: File name -> text, none by default.
        required_tools: Names of functions, such as "read_file". A repeated name requires different
            calls. Each successful call adds to the score before the answer.
        difficulty: Difficulty, not validated.
    """
    steps = tuple(_step(name, "") for name in required_tools)
    return Problem(
        question,
        str(answer),
        difficulty,
        data={"files": dict(files or {}), "steps": steps},
        info={"family": "given", "calls_needed": len(steps)},
    )


@dataclass(frozen=True)
class Family:
    """Kind of problems that a generator draws."""

    tools: tuple[str, ...]
    """Names of required tools, from srl_envs.tasks.tool_use.builtin_tools.TOOLS."""
    draw: Callable[[np.random.Generator, int], Problem]
    """Function that draws a problem of a difficulty from 1 to 5."""


FAMILIES: Mapping[str, Family] = {
    "calculate": Family(("calculator",), calculate),
    "read": Family(("files",), read),
    "look up": Family(("search",), look_up),
    "read and calculate": Family(("files", "calculator"), read_and_calculate),
    "follow": Family(("files",), follow),
}


@cache
def _facts() -> Mapping[str, Mapping[str, str]]:
    lines = CORPUS.read_text(encoding="utf-8").splitlines()
    return {
        entry["title"]: {fact: str(value) for fact, value in entry["facts"].items()}
        for entry in map(json.loads, lines)
    }


@cache
def towns() -> list[str]:
    """Return the names of the towns in the shipped corpus, as one shared list."""
    return [title for title, facts in _facts().items() if "river" in facts]


def _number(rng: np.random.Generator, difficulty: int) -> str:
    if difficulty == 4:
        return f"{rng.integers(10, 1000) / 10:.1f}"
    low, high = {1: (2, 10), 2: (10, 100), 3: (100, 1000), 5: (10_000, 100_000)}[difficulty]
    return str(rng.integers(low, high))


def _files(rng: np.random.Generator, difficulty: int, size: int) -> dict[str, str]:
    names = rng.permutation(FILE_NAMES)[:size]
    return {str(name): _number(rng, difficulty) for name in sorted(names)}
