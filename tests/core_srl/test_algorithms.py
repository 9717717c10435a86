"""The documented settings of algorithms."""

import pytest

from core_srl import (
    CompetenceFactor,
    CompetenceType,
    CooperationFactor,
    CooperationType,
    RLAlgorithm,
    RLConfig,
)
from srl_train.config.yaml_file import from_tree
from srl_train.errors import ConfigError


def test_the_defaults():
    config = RLConfig()
    assert (config.algorithm, config.learning_rate) == (RLAlgorithm.PPO, 3e-4)
    assert (config.gamma, config.batch_size) == (0.99, 32)


def test_become_those_of_a_run():
    kept = from_tree({}, {"rounds": 3, "rollout.group_size": 4, "rollout.groups_per_round": 2})
    run = RLConfig(learning_rate=1e-4, gamma=0.9, batch_size=3).applied_to(kept)
    assert (run.algorithm.name, run.algorithm.learning_rate) == ("ppo", 1e-4)
    assert run.rollout.discount == 0.9
    assert run.algorithm.minibatches == 4  # of 8 samples: steps of 2, for 3 divide no group
    assert (run.rounds, run.rollout.group_size) == (3, 4)
    assert RLConfig().applied_to().algorithm.minibatches == 1


def test_factors_become_modes_and_credit():
    run = RLConfig(
        algorithm="grpo",
        cooperation_factor=CooperationFactor(
            CooperationType.SHARED_REWARDS, shared_reward_ratio=0.7
        ),
        competence_factor=CompetenceFactor(CompetenceType.SPECIALIZED, experience_decay=0.8),
    ).applied_to()
    assert (run.mode.name, run.mode.cooperation_strength) == ("cooperative", 0.7)
    assert (run.credit.name, run.credit.decay) == ("role", 0.8)
    assert run.algorithm.name == "grpo"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"algorithm": "sac"}, "algorithm is 'sac': give one of 'ppo', 'grpo'"),
        ({"gamma": 1.5}, "gamma"),
        ({"batch_size": 0}, "batch_size is 0: give a whole number, 1 or more"),
    ],
)
def test_wrong_values_are_refused(settings, said):
    with pytest.raises(ValueError, match=said):
        RLConfig(**settings)


def test_steps_that_are_too_small_are_refused():
    with pytest.raises(ConfigError, match="batch_size is 1: the 16 samples that a model"):
        RLConfig(batch_size=1).applied_to()


def test_what_does_not_go_together_is_refused():
    specialized = CompetenceFactor(CompetenceType.SPECIALIZED)
    with pytest.raises(ConfigError, match="PPO's critic assigns credit itself"):
        RLConfig(competence_factor=specialized).applied_to()
