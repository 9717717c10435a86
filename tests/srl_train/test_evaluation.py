"""Evaluations: means, errors and baselines, also with several environments."""

import json

import numpy as np
import pytest
from pytest import approx

from srl_envs import registry
from srl_envs.games.base import step_baselines
from srl_train.build import build_run
from srl_train.config import yaml_file
from srl_train.evaluation import mean_of_all
from srl_train.trainer import Trainer


def test_episodes_of_equal_length_have_the_error_of_a_plain_mean():
    games = np.random.default_rng(0).normal(size=(40, 6))
    means = games.mean(axis=1)
    expected = (means.mean(), means.std(ddof=1) / np.sqrt(40))
    assert mean_of_all(games.tolist()) == approx(expected)


def test_the_mean_is_over_steps_not_over_episodes():
    assert mean_of_all([[1.0], [0.0, 0.0, 0.0], []])[0] == 0.25
    assert mean_of_all([[1.0, 2.0]]) == (1.5, None)
    assert mean_of_all([[]]) == mean_of_all([]) == (None, None)
    assert mean_of_all([[0.5], [0.5, 0.5]]) == (0.5, 0.0)


def test_baselines_are_known_if_all_agents_learn(short_run):
    assert build_run(short_run()).baselines
    fixed = short_run(models__count=1, seats={"agent_1": "always_compete"})
    assert not build_run(fixed).baselines


def test_a_games_attribute_of_the_same_name_keeps_its_baselines():
    game = registry.make("coop_compete_v0").unwrapped
    game.scripted = "another purpose"
    assert step_baselines(game) == game.baselines() != {}
    assert step_baselines(object()) == step_baselines(registry.make("maze_v0")) == {}


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
            "rounds": 1,
        }
    )
    results = Trainer(config, folder).fit()
    evaluated = results["evaluation"]["after"]["by_environment"]
    assert sum(one["episodes"] for one in evaluated.values()) == 12
    return folder


def test_rounds_record_each_environment(finished):
    rows = [
        json.loads(line) for line in (finished / "metrics.jsonl").read_text("utf-8").splitlines()
    ]
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
        # Difficulty reduces the reward by up to .5: the environments differ.
        assert told["easy"]["raw_reward"] > told["hard"]["raw_reward"] + 0.2
        assert all(model["weight_change"] > 0 for model in row["models"].values())
