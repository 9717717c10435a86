import sys
import threading
from functools import partial

import pytest

from srl_envs.env_checker import check_environment
from srl_envs.errors import EnvConfigError, EnvError
from srl_envs.registry import make
from srl_envs.tasks.grading import same_by_math_verify

ROW = '{"question": "What is one half?", "answer": "#### 1/2"}\n'


@pytest.fixture
def path(tmp_path):
    (tmp_path / "problems.jsonl").write_text(ROW)
    return tmp_path / "problems.jsonl"


def success(env, said):
    env.reset(seed=0)
    return env.step({"agent_0": f"Answer: {said}"})[4]["agent_0"]["success"]


def test_files_may_be_graded_by_it(path):
    pytest.importorskip("math_verify")
    graded = partial(make, "math_v0", path=path, grader="math_verify")
    assert success(graded(), "0.5") and not success(graded(), "0.6")
    assert success(graded(), "50%") and not success(make("math_v0", path=path), "50%")
    check_environment(graded)


def test_what_it_cannot_read_in_time_is_wrong(monkeypatch):
    pytest.importorskip("math_verify")
    monkeypatch.setattr("srl_envs.tasks.grading.VERIFY_SECONDS", 1)
    assert not same_by_math_verify("3", "9^{9^{9^{9}}}") and not same_by_math_verify(
        "3", "}{ \\frac"
    )


def test_other_threads_are_refused():
    pytest.importorskip("math_verify")
    raised = []

    def grade():
        try:
            same_by_math_verify("1", "1")
        except EnvError as error:
            raised.append(str(error))

    thread = threading.Thread(target=grade)
    thread.start()
    thread.join()
    assert ["main thread" in said for said in raised] == [True]


def test_where_it_is_missing_the_environment_says_so(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "math_verify", None)
    with pytest.raises(ImportError, match=r'pip install "core-srl\[math-verify\]"'):
        make("math_v0", path=path, grader="math_verify")


@pytest.mark.parametrize("arguments", [{"grader": "math_verify"}, {"grader": "sympy"}])
def test_it_is_for_files_alone(arguments):
    with pytest.raises(EnvConfigError, match="grader"):
        make("math_v0", **arguments)
