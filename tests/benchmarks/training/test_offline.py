import json

import pytest

from benchmarks.training import offline

SMALL = {
    "SFT": {"sft": {"players": "models", "episodes": 4, "top_share": 0.5}},
    "DPO": {"dpo": {"episodes": 4}},
}


@pytest.fixture(scope="module")
def result(tiny_folder, tmp_path_factory):
    overrides = {"models.base": tiny_folder, "rollout.group_size": 4}
    folder = tmp_path_factory.mktemp("offline")
    return offline.measure(["coop_compete"], [0], folder, overrides, SMALL, games_played=4)


def test_what_was_earned_is_that_of_the_games_learned_from(result):
    first, second = result["runs"]
    assert [first["stage"], second["stage"]] == ["SFT", "DPO"]
    assert first["before"] == second["before"] and first["data"] != second["data"]
    # A seat earns between 0.4 and 1.1 a turn in this game, and there are eight turns.
    for run in result["runs"]:
        assert all(3 < run[key] < 9 for key in ("before", "data", "after"))
    assert offline.markdown(result).count("\n| coop_compete, ") == 2
    json.dumps(result, allow_nan=False)


def test_targets_can_be_missed():
    run = {"game": "maze", "stage": "SFT", "before": 0.0, "data": 1.0}
    good, bad = {**run, "after": 1.1}, {**run, "after": 1.0}
    assert [check.held for check in offline.checks({"runs": [good]})] == [True]
    assert [check.held for check in offline.checks({"runs": [good, bad]})] == [False]
