import json

import pytest

from benchmarks.training import several_tasks


@pytest.fixture(scope="module")
def result(tiny_folder, tmp_path_factory):
    overrides = {
        "models.base": tiny_folder,
        "models.sampling.max_new_tokens": 4,
        "rollout.group_size": 2,
        "rollout.groups_per_round": 2,
        "logging.evaluation_episodes": 0,
        "rounds": 2,
    }
    folder = tmp_path_factory.mktemp("several_tasks")
    return several_tasks.measure([3], folder, 2, overrides=overrides)


def test_every_task_is_measured_on_problems_of_its_own(result, tmp_path):
    [run] = result["runs"]
    assert list(run["before"]) == list(run["after"]) == ["sums", "programs", "tools"]
    assert sum(run["episodes"].values()) == 8
    # This model was made for another game: it answers nothing rightly.
    assert {one["solved"] for one in run["after"].values()} == {0.0}
    for label, curve in run["curves"].items():
        assert len(curve) == 2 and any(run["episodes"].values())
        assert all(share in (None, 0.0) for share in curve), label
    assert several_tasks.markdown(result).count(", seed 3 |") == 3
    json.dumps(result, allow_nan=False)
    assert several_tasks.figure(result, tmp_path / "curves.png").stat().st_size > 0


def test_targets_can_be_missed():
    def run(before, after):
        said = {"standard_error": 0.03}
        return {"before": {"sums": {"solved": before, **said}},
                "after": {"sums": {"solved": after, **said}}}  # fmt: skip

    def held(*runs):
        return [check.held for check in several_tasks.checks({"runs": runs})]

    assert held(run(0.1, 0.2)) == [True] and held(run(0.1, 0.18)) == [False]
    # Every seed by itself: a good one does not make up for a bad one.
    assert held(run(0.1, 0.2), run(0.1, 0.2)) == [True]
    assert held(run(0.1, 0.9), run(0.1, 0.1)) == [False]
