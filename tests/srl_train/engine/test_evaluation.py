"""The numbers of an evaluation: every turn of every seat counts alike, whoever holds the seats."""

import json

import numpy as np
import pytest
from pytest import approx

from srl_train.build import build_run
from srl_train.cli import main
from srl_train.evaluation import evaluate, mean_of_all
from tests.srl_train.runs.test_several_environments import GAMES


def test_games_of_one_length_have_the_error_of_a_plain_mean():
    games = np.random.default_rng(0).normal(size=(40, 6))
    means = games.mean(axis=1)
    expected = (means.mean(), means.std(ddof=1) / np.sqrt(40))
    assert mean_of_all(games.tolist()) == approx(expected)


def test_the_error_of_games_of_many_lengths_is_that_of_games_played_again():
    rng = np.random.default_rng(1)

    def played():  # who plays long earns less
        lengths = rng.integers(1, 12, size=60)
        return [rng.normal(1.0 / length + rng.normal(), 0.3, length).tolist() for length in lengths]

    told = np.array([mean_of_all(played()) for _ in range(600)])
    assert told[:, 1].mean() == approx(told[:, 0].std(ddof=1), rel=0.1)


def test_the_mean_is_over_turns_not_over_games():
    assert mean_of_all([[1.0], [0.0, 0.0, 0.0], []])[0] == 0.25
    assert mean_of_all([[1.0, 2.0]]) == (1.5, None)
    assert mean_of_all([[]]) == mean_of_all([]) == (None, None)
    assert mean_of_all([[0.5], [0.5, 0.5]]) == (0.5, 0.0)


def test_one_model_alone_earned_what_the_whole_did(short_run):
    run = build_run(
        short_run(
            environment__name="multitask_v0",
            environment__options={"environments": GAMES},
            models__count=1,
            logging__evaluation_episodes=12,
        )
    )
    told, games = evaluate(run, 12)
    assert len({len(game.turns) for game in games}) > 1  # of different lengths
    assert told["raw_reward"] == approx(told["per_model"]["model_0"])
    every = [step.reward for game in games for turn in game.turns for step in turn]
    assert told["raw_reward"] == approx(np.mean(every))


@pytest.mark.parametrize(
    ("seats", "known"),
    [({}, True), ({"agent_1": "always_compete"}, False)],
)
def test_baselines_are_told_where_all_that_play_learn(
    seats, known, short_run, tiny_folder, tmp_path, capsys
):
    count = 1 if seats else 2
    assert bool(build_run(short_run(models__count=count, seats=seats)).baselines) is known
    config = {
        "environment": {
            "name": "coop_compete_v0",
            "options": {"num_agents": 2, "max_cycles": 2, "noise_std": 0.0},
        },
        "models": {"count": count, "base": tiny_folder},
        "seats": seats,
        "rollout": {"group_size": 2, "groups_per_round": 1},
        "rounds": 1,
        "logging": {"evaluation_episodes": 1},
    }
    (tmp_path / "run.yaml").write_text(json.dumps(config), encoding="utf-8")
    assert main(["train", str(tmp_path / "run.yaml"), "--out", str(tmp_path / "run")]) == 0
    said = capsys.readouterr().out
    assert ("the optimum is" in said) is known
    assert "(evaluation before and after training)" in said and "nan" not in said
