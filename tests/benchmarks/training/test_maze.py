import json

import pytest

from benchmarks.training import maze
from srl_envs.games.maze.level import LAYOUTS
from srl_train.config import yaml_file


@pytest.fixture(scope="module")
def result(tiny_folder, tmp_path_factory):
    overrides = {
        "environment.options.max_cycles": 6,
        "models.base": tiny_folder,
        "rollout.group_size": 2,
        "rollout.groups_per_round": 2,
        "logging.evaluation_episodes": 0,
        "rounds": 2,
    }
    return maze.measure([3], tmp_path_factory.mktemp("maze"), 7, overrides=overrides)


def test_a_run_is_measured_in_mazes_it_never_saw(result):
    [run] = result["runs"]
    assert run["episodes"] == 8 and 1 <= run["train_layouts"] <= 4
    assert run["layouts_in_both"] == 0
    assert result["mazes"]["test_layouts"] == 7
    # Eight moves at least lead through a 5x5 maze: in six nobody arrives.
    assert run["after"] == {"success": 0.0, "standard_error": 0.0, "detour": None}
    assert maze.markdown(result).count("\n| trained, seed 3 |") == 1
    json.dumps(result, allow_nan=False)


def test_levels_are_distinct_and_walkers_differ():
    options = {"width": 5, "height": 5, "loop_share": 0.2, "max_cycles": 32, "mask_walls": True}
    test = maze.HeldOut(options, 40)
    assert len(test.layouts) == 40
    walked = {
        name: test.play({"agent_0": maze.classic_policy(name, test.make())})
        for name in ("random_walker", "explorer")
    }
    assert walked["explorer"]["success"] == 1.0 and walked["explorer"]["detour"] < 1.3
    assert walked["random_walker"]["success"] < 0.5


def test_the_mazes_are_of_the_simple_size():
    options = yaml_file.load(maze.CONFIG).environment.options
    assert (options["width"], options["height"]) == (LAYOUTS["simple"].width,) * 2
    assert "split" not in options and "level_seed" not in options  # the training split


def test_targets_can_be_missed():
    def run(success, shared, seconds):
        after = {"success": success, "standard_error": 0.02}
        return {"after": after, "layouts_in_both": shared, "wall_seconds": seconds}

    def held(*runs):
        return [check.held for check in maze.checks({"runs": runs})]

    good, bad = run(0.80, 0, 599.0), run(0.79, 1, 601.0)
    assert held(good) == [True] * 3
    assert held(good, bad) == [False] * 3


def test_models_are_compared_with_a_walker_that_needs_no_training():
    model = {"success": 0.80, "standard_error": 0.03}
    walker = {"success": 0.85, "standard_error": 0.04}
    assert maze.against(model, walker) == pytest.approx((-0.05, 0.05))
