"""Generators of programming problems: question, solution and inputs from one template.

A template draws its parameters and returns the words, the source of the solution, and a function
that draws arguments. Only these solutions run in this process; they compute the expected values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from srl_envs.sandbox import SandboxCall, Test
from srl_envs.sandbox.guest.serialization import dumps
from srl_envs.tasks.base import Problem, pick

VISIBLE, HIDDEN = 2, 4  # tests
TRIES = 200  # draws of arguments, so that tests differ

Arguments = Callable[[np.random.Generator], tuple[Any, ...]]


@dataclass(frozen=True)
class DrawnProblem:
    """Parts of a problem."""

    words: str
    parameters: str
    """Parameters of the function, such as "numbers, k"."""
    body: str
    """Lines of the solution, not indented."""
    arguments: Arguments
    returns: str = ""
    """Expression instead of a body."""


Template = Callable[[np.random.Generator], DrawnProblem]


def problem(family: str, template: Template, rng: np.random.Generator, difficulty: int) -> Problem:
    """Return a problem with its tests."""
    drawn = template(rng)
    body = f"return {drawn.returns}" if drawn.returns else drawn.body
    head = f"def f({drawn.parameters}):\n"
    solution = head + "".join(f"    {line}\n" for line in body.splitlines())
    scope: dict[str, Any] = {}
    exec(solution, scope)
    tests: dict[bytes, Test] = {}
    for _ in range(TRIES):
        arguments = drawn.arguments(rng)
        call = SandboxCall("f", arguments)
        tests.setdefault(dumps(arguments), Test(call, scope["f"](*arguments)))
        if len(tests) == VISIBLE + HIDDEN:
            break
    every = tuple(tests.values())
    shown = "\n".join(f"{test.call} == {test.expected!r}" for test in every[:VISIBLE])
    prefix = f"{head}    return " if drawn.returns else ""
    asked = f"Complete:\n{prefix}" if prefix else f"Write the function f({drawn.parameters})."
    return Problem(
        f"{asked}\nIt must {drawn.words}\n{shown}",
        difficulty=difficulty,
        # The few questions of the smallest family are in both splits, with other numbers.
        key=f"{family}: {drawn.words} {shown if prefix else ''}",
        data={
            "prefix": prefix,
            "visible": every[:VISIBLE],
            "hidden": every[VISIBLE:],
            "solution": drawn.returns or solution,
        },
        info={"family": family},
    )


def _numbers(low: int = -9, high: int = 10, most: int = 8) -> Arguments:
    return lambda rng: (rng.integers(low, high, int(rng.integers(2, most + 1))).tolist(),)


def _word(rng: np.random.Generator, letters: str = "abcdeo", most: int = 8) -> str:
    return "".join(rng.choice(list(letters), int(rng.integers(1, most + 1))).tolist())


def _text(rng: np.random.Generator) -> tuple[str]:
    return (" ".join(_word(rng) for _ in range(int(rng.integers(1, 6)))),)


def _pick(rng: np.random.Generator, options: Mapping[str, str]) -> tuple[str, str]:
    return pick(rng, list(options.items()))


RETURNS = MappingProxyType(
    {
        "add a and b.": "a + b",
        "take b from a.": "a - b",
        "take a from b.": "b - a",
        "multiply a and b.": "a * b",
        "give the larger of a and b.": "max(a, b)",
        "give the smaller of a and b.": "min(a, b)",
        "tell whether a is less than b.": "a < b",
        "tell whether a and b are equal.": "a == b",
    }
)
"""Question -> expression, of the smallest family."""


def _returns(rng: np.random.Generator) -> DrawnProblem:
    words, expression = _pick(rng, RETURNS)
    pair: Arguments = lambda rng: tuple(rng.integers(-9, 10, 2).tolist())  # noqa: E731
    return DrawnProblem(words, "a, b", "", pair, returns=expression)


def _condition(rng: np.random.Generator) -> tuple[str, str]:
    k, m = int(rng.integers(-5, 6)), int(rng.integers(2, 6))
    return _pick(
        rng,
        {
            f"greater than {k}": f"n > {k}",
            f"less than {k}": f"n < {k}",
            f"divisible by {m}": f"n % {m} == 0",
            f"not divisible by {m}": f"n % {m} != 0",
        },
    )


def _total(rng: np.random.Generator) -> DrawnProblem:
    which, test = _condition(rng)
    what, function = _pick(rng, {"sum": "sum", "number": "len"})
    words = f"give the {what} of those of the numbers that are {which}."
    return DrawnProblem(
        words, "numbers", f"return {function}([n for n in numbers if {test}])", _numbers()
    )


def _kept(rng: np.random.Generator) -> DrawnProblem:
    which, test = _condition(rng)
    k = int(rng.integers(2, 9))
    change, done = _pick(
        rng, {f"times {k}": f"n * {k}", f"plus {k}": f"n + {k}", "squared": "n * n"}
    )
    words = f"give the list of the numbers that are {which}, in order, each {change}."
    return DrawnProblem(words, "numbers", f"return [{done} for n in numbers if {test}]", _numbers())


def _letters(rng: np.random.Generator) -> DrawnProblem:
    letters = "".join(sorted(rng.choice(list("abcdeo"), 2, replace=False).tolist()))
    words, body = _pick(
        rng,
        {
            f"count the letters of the text that are among {letters!r}.": (
                f"return sum(c in {letters!r} for c in text)"
            ),
            f"remove all letters {letters!r} from the text.": (
                f"return ''.join(c for c in text if c not in {letters!r})"
            ),
            f"swap the letters {letters[0]!r} and {letters[1]!r} in the text.": (
                f"return text.translate(str.maketrans({letters!r}, {letters[::-1]!r}))"
            ),
        },
    )
    return DrawnProblem(words, "text", body, _text)


def _sorted(rng: np.random.Generator) -> DrawnProblem:
    m = int(rng.integers(2, 8))
    key, code = _pick(
        rng,
        {
            f"their remainders by {m}": f"n % {m}",
            f"their distances from {m}": f"abs(n - {m})",
            "their last digits": "abs(n) % 10",
        },
    )
    order, sign = _pick(rng, {"smallest first": "", "largest first": "-"})
    words = f"sort the numbers by {key}, {order}; equal ones by their values, smallest first."
    body = f"return sorted(numbers, key=lambda n: ({sign}({code}), n))"
    return DrawnProblem(words, "numbers", body, _numbers(-30, 31))


def _runs(rng: np.random.Generator) -> DrawnProblem:
    k = int(rng.integers(1, 4))
    words = f"give the length of the longest run of neighbours that each differ by at most {k}."
    body = (
        "best = now = 1\nfor a, b in zip(numbers, numbers[1:]):\n"
        f"    now = now + 1 if abs(a - b) <= {k} else 1\n    best = max(best, now)\nreturn best"
    )
    return DrawnProblem(words, "numbers", body, _numbers(-5, 6, 12))


def _coins(rng: np.random.Generator) -> DrawnProblem:
    coins = sorted(rng.choice(range(2, 12), 3, replace=False).tolist())
    words = f"give the fewest coins of {coins} that make n, or -1 if none do."
    body = (
        "few = [0] + [None] * n\nfor i in range(1, n + 1):\n"
        f"    found = [few[i - c] for c in {coins} if c <= i and few[i - c] is not None]\n"
        "    few[i] = min(found) + 1 if found else None\nreturn -1 if few[n] is None else few[n]"
    )
    return DrawnProblem(words, "n", body, lambda rng: (int(rng.integers(1, 60)),))


FAMILIES: Mapping[str, Mapping[int, Template]] = MappingProxyType(
    {
        "returns": {1: _returns},
        "lists": {1: _total, 2: _kept},
        "strings": {1: _letters},
        "sorting": {3: _sorted},
        "sequences": {4: _runs},
        "dynamic programming": {5: _coins},
    }
)
"""Family -> difficulty -> template."""
