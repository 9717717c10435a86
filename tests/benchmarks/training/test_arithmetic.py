import json

import pytest

from benchmarks.training import arithmetic
from srl_agents.llm import tiny
from srl_envs import make
from srl_train.config import yaml_file


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    options = dict(yaml_file.load(arithmetic.CONFIG).environment.options)
    overrides = {
        # A short warm start: it knows the form, not well.
        "models.base": str(tiny.folder(lambda: make("math_v0", **options), steps=20)),
        "rollout.group_size": 2,
        "rollout.groups_per_round": 2,
        "logging.evaluation_episodes": 0,
        "rounds": 2,
    }
    return arithmetic.measure([3], tmp_path_factory.mktemp("sums"), 2, overrides=overrides)


def test_a_run_is_measured_on_problems_it_never_saw(result):
    [run] = result["runs"]
    assert run["episodes"] == 8 and run["problems_in_both"] == 0
    # 100 sums and 55 differences.
    assert sum(result["problems"].values()) == 155 and result["problems"]["test"] >= 15
    assert 0.0 <= run["before"]["correct"] < 0.2
    assert arithmetic.markdown(result).count("\n| 3 |") == 1
    json.dumps(result, allow_nan=False)


def test_the_training_split_is_trained_on():
    options = yaml_file.load(arithmetic.CONFIG).environment.options
    assert options["difficulty"] == 1 and "split" not in options


def test_targets_can_be_missed():
    good = {
        "before": {"correct": 0.19}, "after": {"correct": 0.90}, "problems_in_both": 0,
        "wall_seconds": 299.0,
    }  # fmt: skip
    bad = {
        "before": {"correct": 0.20}, "after": {"correct": 0.89}, "problems_in_both": 1,
        "wall_seconds": 301.0,
    }  # fmt: skip

    def held(*runs):
        return [check.held for check in arithmetic.checks({"runs": runs})]

    assert held(good, good) == [True] * 4
    assert held(good, bad) == [False] * 4
