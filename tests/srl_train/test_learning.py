"""Training raises the return: the test of all parts together."""

from pathlib import Path

import pytest

from srl_train.config import yaml_file
from srl_train.trainer import Trainer

LEARNING = {
    "environment__options": {"variant": "pair", "max_cycles": 4},
    "rollout__group_size": 8,
    "rollout__groups_per_round": 2,
    "logging__evaluation_episodes": 32,
}
GRPO = {"algorithm__scale_rewards": "none", "algorithm__learning_rate": 5e-3}
SLOW = [
    {**GRPO, "seed": 1},
    {"algorithm__name": "ppo", "algorithm__critic": "shared"},
    {"algorithm__name": "ppo", "algorithm__critic": "separate"},
    {"algorithm__name": "ppo", "algorithm__critic": "central"},
]


@pytest.mark.parametrize(
    "own", [GRPO, *(pytest.param(one, marks=pytest.mark.slow) for one in SLOW)]
)
def test_training_increases_the_return(own, short_run, tmp_path):
    trainer = Trainer(short_run(**LEARNING, **own, rounds=10), tmp_path / "run")
    measured = trainer.fit()["evaluation"]
    low, high = trainer.run.baselines["uniform"], trainer.run.baselines["optimum"]
    before, after = (measured[when]["raw_reward"] for when in ("before", "after"))
    assert abs(before - low) < 0.2 * (high - low), "the model did not start uniform"
    assert (after - low) / (high - low) > 0.8
    assert measured["after"]["parse_failures"] < 0.02


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("adapters, share", [(None, 0.97), ({}, 0.95)], ids=["full", "adapters"])
def test_the_demo_approaches_the_optimum(adapters, share, seed, tmp_path):
    demo = Path(__file__).parents[2] / "examples" / "configs" / "demo.yaml"
    config = yaml_file.load(demo, {"seed": seed, "models.adapters": adapters})
    trainer = Trainer(config, tmp_path / "run")
    after = trainer.fit()["evaluation"]["after"]
    low, high = trainer.run.baselines["uniform"], trainer.run.baselines["optimum"]
    assert (after["raw_reward"] - low) / (high - low) >= share
