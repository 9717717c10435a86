"""Several environments in one run: each has its own numbers beside the whole."""

import json

import pytest

from srl_extensions.pages.report import report
from srl_train.config import yaml_file
from srl_train.metrics.document import to_json
from srl_train.metrics.run_folder import load
from srl_train.trainer import Trainer

GAMES = {
    label: {
        "name": "coop_compete_pair_v0",
        "options": {"difficulty": difficulty, "max_cycles": turns},
    }
    for label, difficulty, turns in (("easy", 0.0, 2), ("hard", 1.0, 3))
}


@pytest.fixture(scope="module")
def finished(tiny_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("several") / "run"
    config = yaml_file.from_tree(
        {
            "environment": {"name": "multitask_v0", "options": {"environments": GAMES}},
            "models": {"count": 2, "base": tiny_folder},
            "mode": {"name": "cooperative"},
            "rollout": {"group_size": 2, "groups_per_round": 6},
            "logging": {"evaluation_episodes": 12},
            "rounds": 3,
        }
    )
    return Trainer(config, folder).fit(), folder


def test_each_round_tells_of_each_environment(finished):
    _, folder = finished
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text("utf-8").splitlines()]
    assert len(rows) == 3
    for row in rows:
        told = row["by_environment"]
        assert set(told) == set(GAMES)
        assert sum(one["episodes"] for one in told.values()) == 12
        assert all(one["episodes"] % 2 == 0 for one in told.values())  # a group plays one of them
        turns = {label: game["options"]["max_cycles"] for label, game in GAMES.items()}
        for label, one in told.items():
            assert one["raw_return"] == pytest.approx(turns[label] * one["raw_reward"])
        steps = {label: one["episodes"] * turns[label] for label, one in told.items()}
        whole = sum(told[label]["raw_reward"] * steps[label] for label in told) / sum(
            steps.values()
        )
        assert row["environment"]["raw_reward"] == pytest.approx(whole)
        # Difficulty takes up to .5 off what is earned: the two are told apart.
        assert told["easy"]["raw_reward"] > told["hard"]["raw_reward"] + 0.2
        assert all(model["weight_change"] > 0 for model in row["models"].values())


def test_evaluations_and_the_report_tell_of_each(finished):
    results, folder = finished
    for when in ("before", "after"):
        told = results["evaluation"][when]["by_environment"]
        assert sum(one["episodes"] for one in told.values()) == 12
    page = to_json(report(load(folder)))
    assert "Each environment" in page and "Return per episode, by environment" in page


def test_a_run_with_one_environment_has_no_such_part(short_run, tmp_path):
    results = Trainer(short_run(rounds=1), tmp_path / "run").fit()
    assert "Each environment" not in to_json(report(load(tmp_path / "run")))
    assert not results["evaluation"] or "by_environment" in results["evaluation"]["after"]
