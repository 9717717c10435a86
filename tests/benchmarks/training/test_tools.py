import json

import pytest

from benchmarks.training import tools
from srl_envs import make
from srl_train.config import yaml_file


@pytest.fixture(scope="module")
def result(tiny_folder, tmp_path_factory):
    overrides = {
        "models.base": tiny_folder,
        "rollout.group_size": 2,
        "rollout.groups_per_round": 2,
        "logging.evaluation_episodes": 0,
        "rounds": 2,
    }
    return tools.measure([3], tmp_path_factory.mktemp("tools"), 5, overrides=overrides)


def test_a_run_is_measured_on_problems_it_never_saw(result):
    [run] = result["runs"]
    assert run["episodes"] == 8 and 1 <= run["trained_on"] <= 4
    assert run["problems_in_both"] == 0 and 1 <= run["held_out"] <= 5
    # This model was made for another game: it neither calls nor answers.
    assert run["before"] == run["after"] == {"solved": 0.0, "standard_error": 0.0, "turns": 3.0}
    assert tools.markdown(result).count("\n| seed 3 |") == 1
    json.dumps(result, allow_nan=False)


def test_it_takes_two_tools_and_the_training_split_is_trained_on():
    options = yaml_file.load(tools.CONFIG).environment.options
    problem = make("tool_use_v0", **options).problem(0)
    names = [step.call.name for step in problem.data["steps"]]
    assert names == ["read_file", "calculator"] and "split" not in options


def test_targets_can_be_missed():
    good = {
        "before": {"solved": 0.29}, "after": {"solved": 0.80}, "problems_in_both": 0,
        "wall_seconds": 599.0,
    }  # fmt: skip
    bad = {
        "before": {"solved": 0.30}, "after": {"solved": 0.79}, "problems_in_both": 1,
        "wall_seconds": 601.0,
    }  # fmt: skip

    def held(*runs):
        return [check.held for check in tools.checks({"runs": runs})]

    assert held(good) == [True] * 3
    assert held(good, bad) == [False] * 3
