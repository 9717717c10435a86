"""Mathematics: questions with one right answer, generated or from a file.

Families: arithmetic, algebra (equations and inequalities), word problems and multi-step problems,
each of difficulty 1 to 5 (docs/environments/tasks.md describes them).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar

import numpy as np

from srl_envs import loading
from srl_envs.errors import EnvConfigError
from srl_envs.tasks import grading
from srl_envs.tasks.base import Attempt, Grade, Problem, Task, TaskEnv, load_problems, pick
from srl_envs.text import ParseFailure, Samples
from srl_envs.validation import parallel_form, some_of

TOO_FAR = 4  # largest number of steps that a sample answer counts past the end
LARGEST_GUESS = 18  # largest number in the sample answers
LAYOUTS = '{"question", "answer": "... #### 42"} or {"problem", "solution": "... \\\\boxed{42}"}'

Number = int | Fraction
Drawn = tuple[str, Number | str]
"""Question and answer."""
Keyed = tuple[str, Number, str]
"""Question, answer, and identity of the problem apart from its wording."""

FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
NAMES = ("Ada", "Ben", "Chloe", "David", "Elif", "Farid", "Grace", "Hiro", "Ines", "Jonas")
THINGS = ("apples", "books", "cards", "coins", "marbles", "pencils", "shells", "stamps")


class Mathematics(Task):
    """Task of math_v0: questions with one right answer.

    The problems are `problems`, if given, and otherwise drawn from `families`, names in FAMILIES
    (None for all). Raises EnvConfigError for an unknown family and for an empty list of either.
    """

    name: ClassVar[str] = "math_v0"

    def __init__(
        self,
        families: Sequence[str] | str | None = None,
        problems: Sequence[Problem] | None = None,
    ) -> None:
        self.families = some_of("families", families, FAMILIES)
        if problems is not None:
            self.use(problems)

    def rules(self) -> str:
        return "You are asked a question of mathematics."

    def how_to_answer(self) -> str:
        return (
            "End with a line that holds your final answer alone, such as Answer: 42. Write numbers "
            "out (42, -3.5 or 3/4); decimals that do not end need at least four places."
        )

    def draw(self, rng: np.random.Generator, difficulty: int) -> Problem:
        return FAMILIES[pick(rng, self.families)](rng, difficulty)

    def read(self, text: str) -> str | ParseFailure:
        answer = grading.final_answer(text)
        if isinstance(answer, str) and len(answer) > grading.LONGEST:
            return ParseFailure(f"an answer may have {grading.LONGEST} characters")
        return answer

    def grade(self, problem: Problem, answer: str) -> Grade:
        units = grading.words_of(problem.question)
        right = grading.same_answer(str(problem.answer), answer, units)
        return Grade.right() if right else Grade.wrong()

    def sample_answers(self, rng: np.random.Generator, attempt: Attempt, count: int) -> Samples:
        """Return the first `count` of a fixed list of answers, without information on the truth.

        In arithmetic of difficulty 1, the answers count steps, such as "3 + 1, 4 + 0" with
        "Answer: 4" in a second line.
        Otherwise, they are "Answer: 0" to "Answer: 18".
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


def read_problem(row: Any, number: int) -> Problem:
    r"""Return the Problem in a line of a JSONL file in the layout of GSM8K or MATH.

    GSM8K (Cobbe et al. 2021): {"question", "answer"}, with the final answer after the last "####".
    MATH (Hendrycks et al. 2021): {"problem", "solution", "level": "Level 3", "type": "Algebra"},
    with the final answer under "answer", else in the last `\boxed{...}` of the solution.
    The difficulty is the level, or 1 without a level from 1 to 5.

    `row` is the JSON value of line `number`, from 1. Raises EnvConfigError for a row without a
    valid question and final answer.
    """
    if not isinstance(row, dict) or not {"question", "problem"} & set(row):
        raise EnvConfigError(f"{row!r:.40} has neither layout: a line must be {LAYOUTS}")
    level = None
    if "question" in row:
        question, family = loading.text_of(row, "question"), "GSM8K"
        _, mark, rest = loading.text_of(row, "answer").rpartition("####")
        answer = rest if mark else ""
    else:
        question, family = loading.text_of(row, "problem"), str(row.get("type", "MATH"))
        boxes = grading.boxed(str(row.get("solution", "")))
        answer = str(row.get("answer", boxes[-1] if boxes else ""))
        level = re.fullmatch(r"Level ([1-5])", str(row.get("level", "")))
    if not answer.strip():
        raise EnvConfigError(f"the final answer is missing: a line must be {LAYOUTS}")
    difficulty = int(level[1]) if level else 1  # MATH contains a few "Level ?".
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
        families: "arithmetic", "algebra", "word problems", "multi-step" or several; default all.
        path: JSONL file of problems, in the layout of GSM8K or MATH, instead of families. `split`
            is then "any" by default.
        settings: Further keyword arguments of TaskEnv.

    Raises:
        EnvConfigError: An argument or the file is invalid.
        UntrustedError: An untrusted record has a `path`.
    """
    problems = load_problems(path, read_problem, families)
    return TaskEnv(Mathematics(families, problems), **settings)


def arithmetic(rng: np.random.Generator, difficulty: int) -> Problem:
    """Draw a Problem of difficulty 1 to 5: an expression of numbers to compute."""
    levels = (_digits, _tables, _three, _brackets, _fractions)
    expression, answer, key = levels[difficulty - 1](rng)
    question = f"{expression} = ?"
    return _problem("arithmetic", difficulty, question, answer, key or expression)


def _digits(rng: np.random.Generator) -> Keyed:
    one, other = _between(rng, 0, 9), _between(rng, 0, 9)
    if pick(rng, "+-") == "+":
        return f"{one} + {other}", one + other, _pair(one, other, "+")
    one, other = max(one, other), min(one, other)
    return f"{one} - {other}", one - other, ""


def _tables(rng: np.random.Generator) -> Keyed:
    operator = pick(rng, "+-*/")
    if operator == "*":
        one, other = _between(rng, 2, 12), _between(rng, 2, 12)
        return f"{one} * {other}", one * other, _pair(one, other, "*")
    if operator == "/":
        divisor, result = _between(rng, 2, 12), _between(rng, 2, 12)
        return f"{divisor * result} / {divisor}", result, ""
    one, other = _between(rng, 10, 99), _between(rng, 10, 99)
    if operator == "+":
        return f"{one} + {other}", one + other, _pair(one, other, "+")
    return f"{one} - {other}", one - other, ""


def _three(rng: np.random.Generator) -> Keyed:
    start, one, other = _between(rng, 10, 99), _between(rng, 2, 20), _between(rng, 11, 30)
    if pick(rng, (True, False)):
        return f"{start} + {one} * {other}", start + one * other, ""
    return f"{one} * {other} - {start}", one * other - start, ""


def _brackets(rng: np.random.Generator) -> Keyed:
    kind = _between(rng, 0, 2)
    if kind == 0:
        a, b, c, d = (_between(rng, 11, 60) for _ in range(4))
        return f"({a} - {b}) * ({c} + {d})", (a - b) * (c + d), ""
    if kind == 1:
        a, b, c = (_between(rng, 101, 9999) for _ in range(3))
        shown = f"{_decimal(a)} + {_decimal(b)} - {_decimal(c)}"
        return shown, Fraction(a + b - c, 100), ""
    (a, b), (c, d) = _fraction(rng, 9), _fraction(rng, 9)
    return f"{a}/{b} + {c}/{d}", Fraction(a, b) + Fraction(c, d), ""


def _fractions(rng: np.random.Generator) -> Keyed:
    (a, b), (c, d), (e, f) = (_fraction(rng, 15) for _ in range(3))
    if pick(rng, (True, False)):
        value = (Fraction(a, b) + Fraction(c, d)) * Fraction(e, f)
        return f"({a}/{b} + {c}/{d}) * {e}/{f}", value, ""
    base, exponent = _between(rng, 2, 9), _between(rng, 2, 4)
    factor, less = _between(rng, 11, 99), _between(rng, 100, 999)
    value = Fraction(factor * (base**exponent - less), f)
    return f"{factor} * ({base}^{exponent} - {less}) / {f}", value, ""


def _fraction(rng: np.random.Generator, size: int) -> tuple[int, int]:
    below = _between(rng, 2, size)
    return _between(rng, 1, 2 * below), below


def _pair(one: int, other: int, operator: str) -> str:
    return f"{min(one, other)} {operator} {max(one, other)}"


def algebra(rng: np.random.Generator, difficulty: int) -> Problem:
    """Draw a Problem of difficulty 1 to 5: equations or an inequality to solve."""
    kinds = (
        (_shifted,),
        (_linear, _inequality),
        (_both_sides,),
        (_quadratic, _system),
        (_fraction_quadratic, _two_bounds),
    )
    question, answer = pick(rng, kinds[difficulty - 1])(rng)
    return _problem("algebra", difficulty, question, answer)


def _shifted(rng: np.random.Generator) -> Drawn:
    x, shift = _between(rng, 0, 20), _nonzero(rng, 20)
    return f"Solve for x: {_joined('x', (shift, ''))} = {x + shift}", x


def _linear(rng: np.random.Generator) -> Drawn:
    factor, x, shift = _between(rng, 2, 9), _nonzero(rng, 12), _nonzero(rng, 30)
    return f"Solve for x: {_joined(_times(factor), (shift, ''))} = {factor * x + shift}", x


def _inequality(rng: np.random.Generator) -> Drawn:
    factor, bound, shift = _between(rng, 2, 9), _nonzero(rng, 12), _nonzero(rng, 30)
    sign = pick(rng, tuple(FLIPPED))
    shown = f"{_joined(_times(factor), (shift, ''))} {sign} {factor * bound + shift}"
    return f"Solve the inequality for x: {shown}", f"x {sign} {bound}"


def _both_sides(rng: np.random.Generator) -> Drawn:
    left, right = _nonzero(rng, 12), _nonzero(rng, 12)
    if left == right:
        left += 13
    one, other = _nonzero(rng, 40), _nonzero(rng, 40)
    shown = f"{_joined(_times(left), (one, ''))} = {_joined(_times(right), (other, ''))}"
    return f"Solve for x: {shown}", Fraction(other - one, left - right)


def _quadratic(rng: np.random.Generator) -> Drawn:
    one, other = _nonzero(rng, 12), _nonzero(rng, 12)
    shown = _joined("x^2", (-(one + other), "x"), (one * other, ""))
    return _roots(shown, Fraction(one), Fraction(other))


def _fraction_quadratic(rng: np.random.Generator) -> Drawn:
    a, c = _between(rng, 2, 7), _between(rng, 2, 7)
    b, d = _nonzero(rng, 25), _nonzero(rng, 25)  # (ax - b)(cx - d)
    shown = _joined(_times(a * c, "x^2"), (-(a * d + b * c), "x"), (b * d, ""))
    return _roots(shown, Fraction(b, a), Fraction(d, c))


def _roots(shown: str, one: Fraction, other: Fraction) -> tuple[str, str]:
    answer = ", ".join(map(str, sorted({one, other})))
    return f"Find all real x, separated by commas: {shown} = 0", answer


def _system(rng: np.random.Generator) -> Drawn:
    x, y = _nonzero(rng, 9), _nonzero(rng, 9)
    while True:
        a, b, c, d = (_nonzero(rng, 7) for _ in range(4))
        if a * d != b * c:
            break
    first = f"{_joined(_times(a), (b, 'y'))} = {a * x + b * y}"
    second = f"{_joined(_times(c), (d, 'y'))} = {c * x + d * y}"
    return f"Solve {first} and {second}. Answer as (x, y).", f"({x}, {y})"


def _two_bounds(rng: np.random.Generator) -> Drawn:
    factor, low = _between(rng, 2, 9), _nonzero(rng, 40)
    high, shift = low + _between(rng, 10, 90), _nonzero(rng, 90)
    below, above = pick(rng, ("<", "<=")), pick(rng, ("<", "<="))
    factor = -factor if pick(rng, (True, False)) else factor
    middle = _joined(_times(factor), (shift, ""))
    question = f"Solve for x, written as a < x < b: {low} {below} {middle} {above} {high}"
    first, last = Fraction(low - shift, factor), Fraction(high - shift, factor)
    if factor < 0:
        first, last, below, above = last, first, above, below
    return question, f"{first} {below} x {above} {last}"


def word_problems(rng: np.random.Generator, difficulty: int) -> Problem:
    """Draw a Problem of difficulty 1 to 5: a short story with a number to find."""
    story = (_more, _boxes, _compared, _change, _discount)[difficulty - 1]
    first, second = rng.choice(len(NAMES), size=2, replace=False)
    name, other, things = NAMES[int(first)], NAMES[int(second)], pick(rng, THINGS)
    question, answer, key = story(rng, name, other, things)
    return _problem("word problems", difficulty, question, answer, key)


def _more(rng: np.random.Generator, name: str, giver: str, things: str) -> Keyed:
    had, got = _between(rng, 2, 30), _between(rng, 2, 30)
    question = (
        f"{name} has {had} {things}. {giver} gives {name} {got} more. "
        f"How many {things} does {name} have now?"
    )
    return question, had + got, f"{had} plus {got}"


def _boxes(rng: np.random.Generator, name: str, _: str, things: str) -> Keyed:
    boxes, each = _between(rng, 13, 40), _between(rng, 13, 24)
    packed = f"{name} packs {boxes} boxes with {each} {things} in each."
    question = f"{packed} How many {things} is that?"
    return question, boxes * each, f"{boxes} times {each}"


def _compared(rng: np.random.Generator, name: str, other: str, things: str) -> Keyed:
    own, factor, less = _between(rng, 100, 250), _between(rng, 3, 9), _between(rng, 11, 99)
    question = (
        f"{name} has {own} {things}. {other} has {factor} times as many, less {less}. "
        f"How many {things} do they have together?"
    )
    return question, own + factor * own - less, f"{own} and {factor} times less {less}"


def _change(rng: np.random.Generator, name: str, _: str, things: str) -> Keyed:
    count, price, other = _between(rng, 3, 12), _between(rng, 105, 999), _between(rng, 105, 1999)
    spent = count * price + other
    paid = (spent // 1000 + _between(rng, 1, 5)) * 10
    cost, bag = (f"{n // 100}.{n % 100:02d}".removesuffix(".00") for n in (price, other))
    question = (
        f"{name} buys {count} {things} at {cost} dollars each and a bag for "
        f"{bag} dollars, and pays with {paid} dollars. "
        f"How many dollars does {name} get back?"
    )
    key = f"{paid} less {count} times {price} less {other}"
    return question, Fraction(paid * 100 - spent, 100), key


def _discount(rng: np.random.Generator, name: str, _: str, things: str) -> Keyed:
    while True:
        count, price = _between(rng, 12, 60), _between(rng, 11, 95)
        off, tax = 5 * _between(rng, 2, 12), _between(rng, 2, 19)
        total = Fraction(count * price * (100 - off) * (100 + tax), 10_000)
        if (100 * total).denominator == 1:  # Prices are whole cents.
            break
    question = (
        f"{name} orders {count} {things} at {price} dollars each. The order is reduced by {off} "
        f"percent, and then {tax} percent tax is added. How many dollars does {name} pay?"
    )
    return question, total, f"{count} times {price} off {off} tax {tax}"


def multi_step(rng: np.random.Generator, difficulty: int) -> Problem:
    """Draw a Problem of difficulty 1 to 5: a number, and `difficulty` + 1 operations on it."""
    size = (9, 20, 50, 99, 200)[difficulty - 1]
    start = _between(rng, 2, size)
    value, sentences = Fraction(start), [f"Start with {start}."]
    before = ""
    for _ in range(difficulty + 1):
        # Two consecutive steps of one kind would be equivalent to one step.
        before = pick(rng, [k for k in ("add", "subtract", "multiply", "divide") if k != before])
        number = _between(rng, 2, size if before in ("add", "subtract") else 9)
        value, words = {
            "add": (value + number, f"Add {number}."),
            "subtract": (value - number, f"Subtract {number}."),
            "multiply": (value * number, f"Multiply by {number}."),
            "divide": (value / number, f"Divide by {number}."),
        }[before]
        sentences.append(words)
    question = " ".join([*sentences, "What is the result?"])
    return _problem("multi-step", difficulty, question, value)


def _problem(
    family: str,
    difficulty: int,
    question: str,
    answer: Number | str,
    key: str | None = None,
) -> Problem:
    return Problem(
        question,
        str(answer),
        difficulty,
        key=None if key is None else f"{family}: {key}",
        info={"family": family},
    )


def _decimal(hundredths: int) -> str:
    return f"{hundredths // 100}.{hundredths % 100:02d}".rstrip("0").rstrip(".")


def _between(rng: np.random.Generator, low: int, high: int) -> int:
    return int(rng.integers(low, high + 1))


def _nonzero(rng: np.random.Generator, size: int) -> int:
    return pick(rng, (1, -1)) * _between(rng, 1, size)


def _joined(first: str, *signed: tuple[int, str]) -> str:
    """Return a sum as text, without terms of 0: 3x - 2y + 1 for "3x", (-2, "y"), (1, "")."""
    parts = [first]
    for factor, name in signed:
        if factor:
            size = "" if abs(factor) == 1 and name else str(abs(factor))
            parts.append(f"{'-' if factor < 0 else '+'} {size}{name}")
    return " ".join(parts)


def _times(factor: int, name: str = "x") -> str:
    return {1: name, -1: f"-{name}"}.get(factor, f"{factor}{name}")


FAMILIES: Mapping[str, Callable[[np.random.Generator, int], Problem]] = {
    "arithmetic": arithmetic,
    "algebra": algebra,
    "word problems": word_problems,
    "multi-step": multi_step,
}
"""Family -> function that draws a problem of a difficulty from 1 to 5."""
