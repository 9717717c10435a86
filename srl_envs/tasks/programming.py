"""Programming: functions to write, run against tests in the sandbox.

Problems are generated, with difficulties 1 to 5, or are from a file in the layout of HumanEval.
Some tests are visible, the others hidden. Programs run in the sandbox
(docs/environments/sandbox.md).
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from srl_envs import loading
from srl_envs.errors import EnvConfigError
from srl_envs.sandbox import (
    LEVELS,
    CallOutcome,
    Limits,
    Sandbox,
    SandboxCall,
    SandboxVerdict,
    Test,
    shared_sandbox,
)
from srl_envs.sandbox.guest.serialization import dumps
from srl_envs.tasks.base import Attempt, Grade, Problem, Task, TaskEnv, load_problems, pick
from srl_envs.text import ParseFailure, Samples
from srl_envs.validation import check_choice, number_between, parallel_form, some_of

SYNTAX = 0.1  # part of the score for a program that is Python
WEIGHTS = {1: (0.9,), 2: (0.3, 0.6)}
"""Number of kinds of tests (visible, hidden) -> parts of the score for passed tests of each."""
WALL = 5.0  # default time limit of a program with all its tests, in seconds
MOST_RECORDED_WALL = 60.0  # largest time limit in an untrusted record, in seconds
MINIMUM = "filtered"  # default level of protection
SHOWN = 300  # characters of a returned value in the feedback

_FENCED = re.compile(r"```(?:python|py)?[ \t]*\r?\n(.*?)```", re.DOTALL | re.IGNORECASE)
VISIBLE, HIDDEN = 2, 4  # tests
TRIES = 200  # draws of arguments, so that tests differ

Arguments = Callable[[np.random.Generator], tuple[Any, ...]]


class Programming(Task):
    """Task of code_v0: Python functions to write, graded by tests in a sandbox.

    The problems are `problems`, if given, and otherwise drawn from `families`, names in FAMILIES
    (None for all), with the available difficulty that is nearest to the requested one. The answer
    is the last block of a text that is fenced as Python or without a language, else the whole text.
    Raises EnvConfigError for an unknown family and for an empty list of either.
    """

    name: ClassVar[str] = "code_v0"

    def __init__(
        self,
        sandbox: Sandbox,
        families: Sequence[str] | str | None = None,
        problems: Sequence[Problem] | None = None,
    ) -> None:
        self.sandbox = sandbox
        self.families = some_of("families", families, FAMILIES)
        self._levels = sorted({level for family in self.families for level in FAMILIES[family]})
        self.difficulties = self._levels[0], self._levels[-1]
        if problems is not None:
            self.use(problems)

    def rules(self) -> str:
        return "You are asked for a program in Python."

    def how_to_answer(self) -> str:
        return "Answer with the code alone, or put it between ```python and ```."

    def draw(self, rng: np.random.Generator, difficulty: int) -> Problem:
        nearest = min(self._levels, key=lambda level: (abs(level - difficulty), level))
        family = pick(rng, [family for family in self.families if nearest in FAMILIES[family]])
        return drawn_problem(family, FAMILIES[family][nearest], rng, nearest)

    def read(self, text: str) -> str | ParseFailure:
        blocks = _FENCED.findall(text)
        code: str = blocks[-1] if blocks else text
        return code.rstrip() if code.strip() else ParseFailure("the code was empty")

    def grade(self, problem: Problem, answer: str) -> Grade:
        data, program = problem.data, _program(problem, answer)
        verdicts: Sequence[SandboxVerdict]
        if "trial" in data:
            run = self.sandbox.judge(program, data["trial"], (data["entry"],))
            verdicts = [run.verdict]
        else:
            report = self.sandbox.check(program, (*data["visible"], *data["hidden"]))
            run, verdicts = report.run, report.verdicts
        passed = [verdict is SandboxVerdict.OK for verdict in verdicts]
        shown = len(data.get("visible", ()))
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
        elif not all(visible):
            place = visible.index(False)
            feedback = _failure_text(data["visible"][place], run.outcomes[place], verdicts[place])
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

    def sample_answers(self, rng: np.random.Generator, attempt: Attempt, count: int) -> Samples:
        if not attempt.problem.data.get("prefix"):
            return None
        return tuple(RETURNS.values())[:count]


def _failure_text(test: Test, outcome: CallOutcome, verdict: SandboxVerdict) -> str:
    if verdict is not SandboxVerdict.WRONG:
        return f"{test.call} should give {test.expected!r}, but: {outcome.error or verdict}."
    got = repr(outcome.value)
    got = got if len(got) <= SHOWN else f"{got[:SHOWN]}..."
    return f"{test.call} gave {got}, expected {test.expected!r}."


def _program(problem: Problem, answer: str) -> str:
    """Return `answer` after the question's code, or instead of its function."""
    prompt = problem.data.get("prompt", "")
    beginning = prompt or problem.data.get("prefix", "")
    entry = problem.data.get("entry", "f")
    if not beginning:
        return answer
    if re.search(rf"^def[ \t]+{re.escape(entry)}\b", answer, re.MULTILINE):
        return f"{prompt[: prompt.rfind(f'def {entry}')]}{answer}" if prompt else answer
    return f"{beginning}{answer if prompt else answer.strip()}"


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
        families: "returns", "lists", "strings", "sorting", "sequences", "dynamic programming" or
            several; by default all.
        path: JSONL file of problems, in the layout of HumanEval, instead of families. `split` is
            then "any" by default.
        sandbox_minimum: Lowest level of protection: "limits", "filtered" or "strict". Untrusted
            records get at least "filtered".
        wall: Seconds for a program with all its tests, at least 0.01. The CPU limit is the same,
            rounded up.
        settings: Further keyword arguments of TaskEnv.

    Raises:
        EnvConfigError: An argument or the file is invalid.
        SandboxError: The level of protection is not available, or the system is not Linux.
        UntrustedError: An untrusted record has a `path`, or a `wall` above MOST_RECORDED_WALL.
    """
    problems = load_problems(path, read_problem, families)
    seconds = loading.at_most(number_between("wall", wall, 0.01), MOST_RECORDED_WALL, "wall")
    minimum = check_choice("sandbox_minimum", sandbox_minimum, LEVELS)
    if loading.is_closed():  # The options are from an untrusted record.
        minimum = max(minimum, MINIMUM, key=LEVELS.index)
    sandbox = shared_sandbox(Limits(wall=seconds, cpu=max(1, math.ceil(seconds))), minimum)
    return TaskEnv(Programming(sandbox, families, problems), **settings)


def read_problem(row: Any, number: int) -> Problem:
    """Return the Problem in a line of a JSONL file in the layout of HumanEval (Chen et al. 2021).

    A line is {"prompt", "entry_point", "test"}, and may contain "canonical_solution", all texts.
    The test defines check(function), and runs in another process than the program (Sandbox.judge).
    All arguments and results of the function must therefore be plain data. `row` is the JSON value
    of line `number`, from 1. The difficulty is 1. Raises EnvConfigError for another layout and for
    a prompt that is too long.
    """
    names = ("prompt", "entry_point", "test")
    if not isinstance(row, dict):
        raise EnvConfigError(f"a problem must have {', '.join(names)}, got {row!r:.40}")
    prompt, entry, test = (loading.text_of(row, name) for name in names)
    solution = row.get("canonical_solution", "")
    if not isinstance(solution, str):
        raise EnvConfigError(f"canonical_solution must be a text, got {solution!r:.40}")
    # The test may use other functions of the prompt; the entry point is that of the program.
    before = f"{prompt}\n    ...\n\n{entry} = elsewhere[{entry!r}]\n"
    return Problem(
        f"Complete the function {entry}.\n{prompt.strip()}",
        data={
            "prompt": prompt,
            "entry": entry,
            "trial": f"{before}{test}\n\ncheck({entry})\n",
            "solution": prompt + solution,
        },
        info={"family": "HumanEval", "line": number},
    )


@dataclass(frozen=True)
class DrawnProblem:
    """Question, solution and test arguments of a problem, as drawn by a template."""

    words: str
    """Description of the function, which follows "It must"."""
    parameters: str
    """Parameters of the function, such as "numbers, k"."""
    body: str
    """Lines of the solution, not indented; ignored if `returns` is not empty."""
    arguments: Arguments
    """Function that draws the arguments of one test call."""
    returns: str = ""
    """Expression that the solution returns, instead of a body. The question then asks for it alone.
    """


Template = Callable[[np.random.Generator], DrawnProblem]


def drawn_problem(
    family: str, template: Template, rng: np.random.Generator, difficulty: int
) -> Problem:
    """Draw a Problem from `template`, which is `FAMILIES[family][difficulty]`.

    Its VISIBLE + HIDDEN tests have different arguments. There are fewer tests if TRIES draws
    contain fewer different arguments. The question shows the first VISIBLE tests. The template's
    solution runs in this process, to compute the expected values.
    """
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
    request = f"Complete:\n{prefix}" if prefix else f"Write the function f({drawn.parameters})."
    return Problem(
        f"{request}\nIt must {drawn.words}\n{shown}",
        difficulty=difficulty,
        # The smallest family has few questions; both splits contain them, with other numbers.
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


def _text(rng: np.random.Generator) -> tuple[str]:
    words = [
        "".join(rng.choice(list("abcdeo"), int(rng.integers(1, 9))).tolist())
        for _ in range(int(rng.integers(1, 6)))
    ]
    return (" ".join(words),)


def _pick(rng: np.random.Generator, options: Mapping[str, str]) -> tuple[str, str]:
    return pick(rng, list(options.items()))


RETURNS: Mapping[str, str] = {
    "add a and b.": "a + b",
    "take b from a.": "a - b",
    "take a from b.": "b - a",
    "multiply a and b.": "a * b",
    "give the larger of a and b.": "max(a, b)",
    "give the smaller of a and b.": "min(a, b)",
    "tell whether a is less than b.": "a < b",
    "tell whether a and b are equal.": "a == b",
}
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


FAMILIES: Mapping[str, Mapping[int, Template]] = {
    "returns": {1: _returns},
    "lists": {1: _total, 2: _kept},
    "strings": {1: _letters},
    "sorting": {3: _sorted},
    "sequences": {4: _runs},
    "dynamic programming": {5: _coins},
}
"""Family -> difficulty -> template."""
