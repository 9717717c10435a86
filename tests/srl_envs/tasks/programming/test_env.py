import json

import numpy as np
import pytest

from srl_envs import code_v0
from srl_envs.errors import EnvConfigError
from srl_envs.sandbox import Limits
from srl_envs.tasks.base import load_problems
from srl_envs.tasks.programming import (
    FAMILIES,
    RETURNS,
    Programming,
    drawn_problem,
    read_problem,
)
from srl_envs.text import TextEnv
from tests.srl_envs.sandbox.sandboxes import any_sandbox

HUMAN_EVAL = {
    "task_id": "Own/0",
    "prompt": "import math\n\ndef double(x):\n    return 2 * x\n\n\n"
    'def root(x: float) -> float:\n    """The square root of x, which was doubled.\n'
    '    >>> root(double(2.0))\n    2.0\n    """\n',
    "entry_point": "root",
    "canonical_solution": "    return math.sqrt(x)\n",
    "test": "METADATA = {}\n\n\ndef check(candidate):\n    for x in range(5):\n"
    "        assert math.isclose(candidate(double(x)) ** 2, double(x), abs_tol=1e-9)\n",
}


@pytest.fixture(scope="module")
def sandbox():
    with any_sandbox(Limits(wall=20.0, cpu=1)) as made:
        yield made


@pytest.fixture
def level(sandbox):
    return sandbox.protections().level  # Environments of the tests start on any machine.


@pytest.mark.parametrize("family", FAMILIES)
def test_solutions_pass_and_constants_do_not(sandbox, family):
    task = Programming(sandbox)
    for difficulty, template in FAMILIES[family].items():
        for seed in range(2):
            drawn = drawn_problem(family, template, np.random.default_rng(seed), difficulty)
            graded = task.grade(drawn, drawn.data["solution"])
            assert graded.correct and graded.score == 1.0, (drawn, graded)
            constant = task.grade(drawn, "def f(*anything): return 'nothing at all'")
            assert not constant.correct and constant.score == pytest.approx(0.1)
            hidden = [str(test.call) for test in drawn.data["hidden"]]
            assert len(hidden) >= 2 and not any(call in drawn.question for call in hidden)


def drawn(family="returns", seed=0):
    [(level, template), *_] = FAMILIES[family].items()
    return drawn_problem(family, template, np.random.default_rng(seed), level)


def test_score_by_syntax_visible_and_hidden_tests(sandbox):
    task, asked = Programming(sandbox), drawn("lists", 3)
    (shown, _), hidden = asked.data["visible"], asked.data["hidden"]
    by_heart = (
        f"def f(numbers): return {shown.expected} if {shown.call.args[0]} == numbers else None"
    )
    graded = task.grade(asked, by_heart)
    assert graded.score == pytest.approx(0.1 + 0.3 / 2) and not graded.correct
    assert graded.feedback.startswith(f"{asked.data['visible'][1].call} gave None, expected ")
    both = {repr(test.call.args[0]): test.expected for test in asked.data["visible"]}
    graded = task.grade(asked, f"def f(numbers): return {both}.get(repr(numbers))")
    assert graded.score == pytest.approx(0.4)
    assert graded.feedback == f"The tests you were shown pass, but {len(hidden)} of 4 others fail."
    broken = task.grade(asked, "def f(numbers) return 1")
    assert broken.score == 0.0 and broken.feedback.startswith("That is not Python: SyntaxError")


def test_an_expression_completes_a_line(sandbox):
    task, asked = Programming(sandbox), drawn()
    right = asked.data["solution"]
    for answer in (right, f" {right}\n", f"def f(a, b):\n    return {right}"):
        assert task.grade(asked, task.read(answer)).correct
    wrong = [task.grade(asked, other).score for other in RETURNS.values() if other != right]
    assert len(wrong) == len(RETURNS) - 1 and max(wrong) < 1.0


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("x = 1", "x = 1"),
        ("Here:\n```python\nx = 1\n```\nDone.", "x = 1"),
        ("```\nx = 1\n```", "x = 1"),
        ("```python\nx = 1\n```\nBetter:\n```py\ny = 2\n```", "y = 2"),
    ],
)
def test_code_is_extracted_from_text(sandbox, text, code):
    assert Programming(sandbox).read(text) == code


def test_several_turns_show_the_failing_test(level):
    env = TextEnv(code_v0.parallel_env(families="lists", sandbox_minimum=level, problem_seed=1))
    texts, _ = env.reset(seed=1)
    assert "Write the function f(numbers)." in texts["agent_0"]
    texts, rewards, *_ = env.step({"agent_0": "```python\ndef f(numbers): return None\n```"})
    assert rewards["agent_0"] == pytest.approx(0.1)
    assert "Attempt 2 of 3. f(" in texts["agent_0"] and "gave None, expected " in texts["agent_0"]
    solution = env.unwrapped.attempt("agent_0").problem.data["solution"]
    _, rewards, terminations, _, infos = env.step({"agent_0": solution})
    assert rewards["agent_0"] == pytest.approx(0.9 - 0.05) and terminations["agent_0"]
    assert infos["agent_0"]["hidden_passed"] == infos["agent_0"]["hidden_tests"] == 4
    env.close()


def test_load_problems_reads_human_eval(sandbox, tmp_path):
    path = tmp_path / "problems.jsonl"
    path.write_text(json.dumps(HUMAN_EVAL) + "\n\n")
    [problem] = load_problems(path, read_problem)
    task = Programming(sandbox, problems=[problem])
    # The answer is the body, or the whole function.
    for answer in (
        problem.data["solution"],
        "    return math.sqrt(x)",
        "def root(x):\n    return math.sqrt(x)",
    ):
        assert task.grade(problem, answer).score == 1.0
    forged = (
        "class Equal:\n    def __eq__(self, o): return True\n    __hash__ = None\n"
        "    def __pow__(self, o): return self\n"
        "def root(*a): return Equal()"
    )
    assert task.grade(problem, forged).score == pytest.approx(0.1)
    assert task.grade(problem, "def root(").score == 0.0
    assert task.grade(problem, "    return 2.0").feedback == "1 of 1 tests fail."


CHEATS = {
    "ends": "import sys\nsys.exit(0)",
    "patches": "import builtins\nbuiltins.AssertionError = builtins.repr = int\n"
    "def f(*a): return 1",
    "equals everything": "class E(float):\n    def __eq__(s, o): return True\n    __hash__ = None\n"
    "def f(*a): return E(1)",
    "returns what it finds": "import gc, sys\ndef f(*a):\n    found, frame = [], sys._getframe()\n"
    "    while frame: found.append(repr(frame.f_locals)); frame = frame.f_back\n"
    "    return ' '.join(found).partition('calls')[2].replace(',', ', ')",
    "says of its call that it is no Python": "import json, os\ndef f(*a):\n"
    "    os.write(3, json.dumps({'verdict': 'syntax', 'error': repr(a)}).encode() + b'\\n')",
}


@pytest.mark.parametrize("layout", ["HumanEval", "generated"])
def test_cheating_programs_pass_no_test_and_read_none(level, tmp_path, layout):
    parameters = {"families": "lists", "problem_seed": 3}
    if layout != "generated":
        path = tmp_path / "problems.jsonl"
        path.write_text(json.dumps(HUMAN_EVAL))
        parameters = {"path": path}
    env = code_v0.parallel_env(sandbox_minimum=level, render_mode="ansi", wall=1.0, **parameters)
    for cheat in CHEATS.values():
        env.reset(seed=0)
        data = env.attempt("agent_0").problem.data
        program = cheat.replace("def f(", f"def {data.get('entry', 'f')}(")
        seen, rewards, _, _, infos = env.step({"agent_0": program})
        assert rewards["agent_0"] == pytest.approx(0.1), cheat
        assert infos["agent_0"]["hidden_passed"] == infos["agent_0"]["visible_passed"] == 0
        told = f"{seen['agent_0']['text']} {infos} {env.render()}".replace(program, "")
        if layout == "generated":
            assert not any(repr(test.call.args[0]) in told for test in data["hidden"])
        else:
            assert data["trial"].strip().splitlines()[-1] not in told
    env.close()


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "line 1"),
        ('{"question": "?"}', "prompt must be a text"),
        ('{"prompt": "?", "entry_point": "f", "test": []}', "test must be a text"),
        (json.dumps(HUMAN_EVAL | {"canonical_solution": 5}), "canonical_solution must be a text"),
        ("", "contains no problem"),
    ],
)
def test_load_problems_refuses_other_layouts(tmp_path, line, problem):
    path = tmp_path / "problems.jsonl"
    path.write_text(line)
    with pytest.raises(EnvConfigError, match=problem):
        load_problems(path, read_problem)
    with pytest.raises(EnvConfigError, match="families and path"):
        code_v0.parallel_env(families="lists", path=path)
