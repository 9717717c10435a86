"""The documented factors become settings of a run, or are refused."""

import dataclasses

import pytest

from core_srl.factors import (
    CompetenceFactor,
    CompetenceType,
    CooperationFactor,
    CooperationType,
    factor_settings,
)
from srl_train.config.yaml_file import from_tree
from srl_train.errors import ConfigError

SPECIALIZED = CompetenceFactor(CompetenceType.SPECIALIZED, experience_decay=0.8)


@pytest.mark.parametrize(
    ("cooperation", "mode", "strength", "credit", "strategy"),
    [
        (CooperationFactor(), "cooperative", 0.0, "per_agent", "asynchronous"),
        (
            CooperationFactor(CooperationType.TEAM_BASED, cooperation_strength=0.7),
            "cooperative",
            0.7,
            "team_joint",
            "asynchronous",
        ),
        (
            CooperationFactor(CooperationType.SHARED_REWARDS, shared_reward_ratio=0.3),
            "cooperative",
            0.3,
            "per_agent",
            "asynchronous",
        ),
        (
            CooperationFactor(CooperationType.KNOWLEDGE_TRANSFER, knowledge_transfer_rate=0.2),
            "cooperative",
            0.0,
            "per_agent",
            "federated",
        ),
    ],
)
def test_factors_are_settings(cooperation, mode, strength, credit, strategy):
    config = from_tree({}, factor_settings(cooperation))
    assert (config.mode.name, config.mode.cooperation_strength) == (mode, strength)
    assert (config.credit.name, config.updates.strategy) == (credit, strategy)
    if strategy == "federated":
        assert config.updates.mix == 0.2


def test_specialized_competence_is_credit_by_role():
    config = from_tree({}, factor_settings(competence=SPECIALIZED))
    assert (config.credit.name, config.credit.decay) == ("role", 0.8)
    assert factor_settings(competence=CompetenceFactor()) == factor_settings()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: CooperationFactor(cooperation_strength=0.5), "with cooperation_type 'team_based'"),
        (lambda: CooperationFactor(shared_reward_ratio=0.6), "'shared_rewards' only"),
        (lambda: CooperationFactor(team_size=4), "team_size is 4: who is on which team"),
        (lambda: CooperationFactor(communication_cost=0.01), "no game charges for words"),
        (
            lambda: CooperationFactor(CooperationType.TEAM_BASED, cooperation_strength=2.0),
            "cooperation_strength is 2.0: give 0 to 1",
        ),
        (lambda: CompetenceFactor(CompetenceType.ADAPTIVE), "a model adapts by learning"),
        (lambda: CompetenceFactor(experience_decay=0.5), "with competence_type 'specialized' only"),
        (lambda: CompetenceFactor(learning_rate=0.1), "set algorithm.learning_rate"),
        (
            lambda: factor_settings(CooperationFactor(CooperationType.TEAM_BASED), SPECIALIZED),
            "by role: give one of them",
        ),
    ],
)
def test_what_cannot_be_honoured_is_refused(make, says):
    with pytest.raises(ConfigError, match=says) as error:
        make()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "name", ["base_capability", "max_capability", "adaptation_speed", "specialization_level"]
)
def test_no_number_stands_for_how_able_a_model_is(name):
    default = {f.name: f.default for f in dataclasses.fields(CompetenceFactor)}[name]
    with pytest.raises(ConfigError, match=rf"{name} is .*measured"):
        CompetenceFactor(**{name: default + 0.1})
