"""math_v0: generated problems, their splits and grades, and problems from files."""

import json
import re
from fractions import Fraction

import numpy as np
import pytest

from srl_envs import make
from srl_envs.errors import EnvConfigError
from srl_envs.tasks import expressions
from srl_envs.tasks.base import load_problems
from srl_envs.tasks.mathematics import FAMILIES, Mathematics, read_problem
from srl_envs.text import ParseFailure

LEVELS = range(1, 6)
every_family = pytest.mark.parametrize("family", FAMILIES)
every_level = pytest.mark.parametrize("level", LEVELS)


def drawn(family, level, count, seed=0):
    rng = np.random.default_rng(seed)
    return [FAMILIES[family](rng, level) for _ in range(count)]


@every_family
@every_level
def test_problems_are_seeded_and_correct_answers_pass(family, level):
    task = Mathematics([family])
    for problem in drawn(family, level, 60):
        assert problem.difficulty == level and problem.info["family"] == family
        assert task.grade(problem, problem.answer).correct, problem
        assert not task.grade(problem, "nothing").correct
        assert not re.search(r"[-+] -|--|\+ \+|\b1x| 0x", problem.question), problem.question


@every_level
def test_arithmetic_answers_equal_python(level):
    for problem in drawn("arithmetic", level, 100):
        text = problem.question.removesuffix(" = ?").replace("^", "**")
        fractions = re.sub(r"(?<!\*\*)\b\d+(?:\.\d+)?", lambda m: f"F('{m[0]}')", text)
        assert eval(fractions, {"F": Fraction}) == Fraction(problem.answer)  # The text is our own.


NUMBER = re.compile(r"\d+(?:\.\d+)?(?:/\d+)?")
# Story -> function of its numbers, in the order of the question.
STORIES = {
    "gives \\w+ \\d+ more": lambda a, b: a + b,
    "packs": lambda a, b: a * b,
    "times as many": lambda a, b, c: a + (a * b - c),
    "get back": lambda a, b, c, d: d - a * b - c,
    "percent tax": lambda n, p, off, tax: n * p * (1 - off / 100) * (1 + tax / 100),
}


def test_roots_solve_their_equations():
    """The parser computes equal values of both sides at every root."""
    for level in (1, 2, 3, 4, 5):
        for problem in drawn("algebra", level, 40):
            left, equals, right = problem.question.partition(": ")[2].partition(" = ")
            for root in problem.answer.split(", ") if equals and "y" not in left else ():
                at = {"x": Fraction(root)}
                sides = (expressions.exact(expressions.parse(side), at) for side in (left, right))
                assert len(set(sides)) == 1, problem


@every_level
def test_story_answers_follow_from_their_numbers(level):
    for problem in drawn("word problems", level, 60):
        [told] = [name for name in STORIES if re.search(name, problem.question)]
        numbers = [Fraction(text) for text in NUMBER.findall(problem.question)]
        assert STORIES[told](*numbers) == Fraction(problem.answer), problem


@every_level
def test_multi_step_answers_follow_from_their_sentences(level):
    for problem in drawn("multi-step", level, 60):
        value = Fraction(0)
        told = re.findall(
            r"(Start with|Add|Subtract|Multiply by|Divide by) (\d+)", problem.question
        )
        for word, number in told:
            n = Fraction(number)
            value = {"Start with": n, "Add": value + n, "Subtract": value - n,
                     "Multiply by": value * n, "Divide by": value / n}[word]  # fmt: skip
        assert value == Fraction(problem.answer) and len(told) == level + 2


def test_commuted_sums_have_one_identity():
    keys = {p.question: p.identity for p in drawn("arithmetic", 1, 1500)}
    assert keys["3 + 5 = ?"] == keys["5 + 3 = ?"] != keys["5 - 3 = ?"]


def test_sample_answers_are_independent_of_the_truth():
    for level in (1, 3):
        env = make("math_v0", difficulty=level, families="arithmetic")
        rates = []
        for seed in range(40):
            env.reset(seed=seed)
            offered = env.sample_answers("agent_0", np.random.default_rng(0), 64)
            work_now = env.attempt("agent_0")
            read = [env.task.read(text) for text in offered]
            assert not any(isinstance(answer, ParseFailure) for answer in read)
            right = [env.task.grade(work_now.problem, str(answer)).correct for answer in read]
            rates.append(np.mean(right))
        assert np.mean(rates) < 0.2


GSM = {
    "question": "Ada has 3 boxes of 14 eggs. How many eggs?",
    "answer": "3*14=<<3*14=42>>42\n#### 42",
}
MATH = {
    "problem": "What is $\\frac{1}{2}+\\frac{1}{3}$?", "level": "Level 2", "type": "Algebra",
    "solution": "It is $\\frac{3}{6}+\\frac{2}{6}=\\boxed{\\frac{5}{6}}$.",
}  # fmt: skip


def in_file(tmp_path, *rows):
    path = tmp_path / "problems.jsonl"
    path.write_text("\n".join(r if isinstance(r, str) else json.dumps(r) for r in rows), "utf-8")
    return path


def test_load_problems_reads_both_layouts(tmp_path):
    first, second = load_problems(in_file(tmp_path, GSM, "", MATH), read_problem)
    assert (first.answer, first.info) == ("42", {"family": "GSM8K", "line": 1})
    assert (second.answer, second.difficulty) == (r"\frac{5}{6}", 2)
    assert second.info == {"family": "Algebra", "line": 3}
    task = Mathematics(problems=(first, second))
    assert task.grade(first, "42 eggs").correct and not task.grade(first, "42 ducks").correct
    assert task.grade(second, "0.8333").correct and not task.grade(second, "1/2 + 1/3").correct


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("{", "line 2: not JSON"),
        ("[1]", "line 2: [1] has neither layout"),
        ({"text": "x"}, "line 2: {'text': 'x'} has neither layout"),
        ({"question": "x", "answer": "42"}, "line 2: the final answer is missing"),
        ({"problem": "x" * 20_000, "solution": "\\boxed{1}"}, "line 2: question must have"),
    ],
)
def test_load_problems_names_the_invalid_line(tmp_path, row, said):
    with pytest.raises(EnvConfigError, match=re.escape(said)):
        make("math_v0", path=in_file(tmp_path, GSM, row))


def test_wrong_arguments(tmp_path):
    with pytest.raises(EnvConfigError, match="problems must"):
        Mathematics(problems=[])
    with pytest.raises(EnvConfigError, match="families must be some of"):
        make("math_v0", families=["geometry"])
    with pytest.raises(EnvConfigError, match="families and path"):
        make("math_v0", families="algebra", path="x.jsonl")
    with pytest.raises(EnvConfigError, match="contains no problem"):
        make("math_v0", path=in_file(tmp_path, ""))
