import json

import pytest

from benchmarks import records
from benchmarks.repeats import Estimate
from benchmarks.training.unseen import tasks
from srl_envs import make
from srl_train.config import yaml_file

NOTHING = Estimate(0.0, 0.0)


def options_of(example):
    return dict(yaml_file.load(records.CONFIGS / example).environment.options)


@pytest.mark.slow
def test_arithmetic_is_asked_problem_by_problem(small):
    request = small(games=1, models__sampling={"max_new_tokens": 4})
    result = tasks.ARITHMETIC.measure(request)
    [run] = result.rows
    assert run["episodes"] == 8 and run["trained_and_asked"] == 0 < run["trained_on"]
    # 100 sums and 55 differences.
    assert sum(result.facts.values()) == 155 and result.facts["after"] >= 15
    assert 0.0 <= run["before"]["right"].mean < 0.2
    assert tasks.ARITHMETIC.markdown(result, request).count("\n| 3 |") == 1
    json.dumps(run, allow_nan=False)


@pytest.mark.slow
def test_two_tools_are_asked_for_problems_never_seen(small):
    imitated = {"data_policy": "models", "episodes": 2, "drop_parse_failures": False}
    request = small(games=5, sft=imitated)
    result = tasks.TOOLS.measure(request)
    [run] = result.rows
    # Two of them before the rounds: their problems too count as trained on.
    assert run["episodes"] == 8 + 2 and 5 <= run["trained_on"] <= 6
    assert run["trained_and_asked"] == 0 and 1 <= run["held_out"] <= 5
    # This model was made for another game: it neither calls nor answers.
    assert run["before"] == run["after"] == {"solved": NOTHING, "turns": 3.0}
    assert tasks.TOOLS.markdown(result, request).count("\n| seed 3 |") == 1
    json.dumps(run, allow_nan=False)


def test_it_takes_two_tools():
    problem = make("tool_use_v0", **options_of("tool_use.yaml")).problem(0)
    assert [one.call.name for one in problem.data["steps"]] == ["read_file", "calculator"]


@pytest.mark.slow
def test_every_task_is_measured_on_problems_of_its_own(small):
    request = small(games=2)
    result = tasks.SEVERAL_TASKS.measure(request)
    assert [row["task"] for row in result.rows] == ["sums", "programs", "tools"]
    assert sum(row["episodes"] for row in result.rows) == 8
    for row in result.rows:
        assert row["after"] == NOTHING and row["beyond_chance"] == 0.0
        assert len(row["curve"]) == 2 and all(share in (None, 0.0) for share in row["curve"])
    assert tasks.SEVERAL_TASKS.markdown(result, request).count(", seed 3 |") == 3
    json.dumps(result.rows, allow_nan=False)


@pytest.mark.parametrize(("after", "beyond"), [(0.5, 0.3), (0.2, 0.0)])
def test_a_rise_within_two_standard_errors_is_none(after, beyond, monkeypatch):
    class Folder:
        def series(self, *_):
            return [float("nan"), 0.5]

        def total(self, *_):
            return 4

    monkeypatch.setattr(tasks.run_folder, "load", lambda _: Folder())
    run = {"out": "x", "before": {"a": Estimate(0.1, 0.03)}, "after": {"a": Estimate(after, 0.04)}}
    [row] = tasks.by_task(run)
    assert row["beyond_chance"] == pytest.approx(after - 0.1 - 2 * 0.05)
    assert row["beyond_chance"] == pytest.approx(beyond, abs=1e-9)
    assert (row["curve"], row["episodes"]) == ([None, 0.5], 4)
