"""Agents and levels that are reserved for evaluation cannot be used in training."""

import pytest

from srl_agents.scripted.registry import names
from srl_envs import registry, scenarios
from srl_envs.errors import EnvConfigError
from srl_envs.text import TextEnv
from srl_train.build import build_run
from srl_train.config.run import EnvironmentConfig
from srl_train.errors import ConfigError
from srl_train.players import refuse_partners

PAIR = registry.make("coop_compete_pair_v0")


def refuse_levels(section, env):
    scenarios.refuse_levels("environment", section.name, section.options, env)


def test_a_held_out_partner_is_refused_with_the_allowed_ones(short_run):
    with pytest.raises(ConfigError) as error:
        build_run(short_run(models__count=1, seats={"agent_1": "grim_trigger"}))
    said = str(error.value)
    assert "seats.agent_1 must not be reserved for evaluation, got 'grim_trigger'" in said
    offered = said.partition("allowed: ")[2].split(", ")
    assert set(offered) == {"model_0", *names(PAIR, holdout=False), "MODULE:CLASS"}
    assert "\n" not in said


def test_only_partners_that_are_not_held_out_may_train():
    for who in names(holdout=True):
        with pytest.raises(ConfigError, match=r"seats\.agent_0"):
            refuse_partners({"agent_0": who}, ("model_0",), PAIR)
    with pytest.raises(ConfigError, match=r"seats\.agent_0"):
        refuse_partners({"agent_0": "leader|pavlov"}, ("model_0",), PAIR)
    for who in ("model_0", "leader|bully", *names(PAIR, holdout=False)):
        refuse_partners({"agent_0": who}, ("model_0",), PAIR)


def test_every_member_of_several_environments_is_checked():
    sums = {"name": "math_v0", "options": {"families": "arithmetic"}}
    kept = {"name": "math_v0", "options": {"split": "test"}}

    def section(**members):
        return EnvironmentConfig(name="multitask_v0", options={"environments": members})

    def refuse(given):
        refuse_levels(given, registry.make(given.name, **given.options))

    refuse(section(sums=sums))
    with pytest.raises(EnvConfigError, match=r"environments\.kept\.options\.split"):
        refuse(section(sums=sums, kept=kept))
    refuse(section(arms={"name": "bandit_v0"}))
    with pytest.raises(EnvConfigError, match=r"environments\.arms\.options .*arm0_prob=0\.5"):
        refuse(section(arms={"name": "bandit_v0", "options": RIGHT_SPOILS}))
    env = registry.make("multitask_v0", environments={"kept": kept})
    with pytest.raises(EnvConfigError, match=r"environments\.kept\.options\.split"):
        refuse_levels(EnvironmentConfig(name="custom:object"), env)


RIGHT_SPOILS = {"arm1_prob_start": 0.9, "arm1_prob_after": 0.1}


@pytest.mark.parametrize(
    ("name", "options"), [("bandit_v0", RIGHT_SPOILS), ("debate_v0", {"split": "test"})]
)
def test_environment_objects_are_checked(name, options):
    env = TextEnv(registry.make(name, **options))
    with pytest.raises(EnvConfigError, match=f"scenario {name}"):
        refuse_levels(EnvironmentConfig(name="custom:object"), env)


def test_only_levels_that_are_not_held_out_may_train():
    for name in scenarios.names():
        found = scenarios.scenario(name)
        section = EnvironmentConfig(name=found.environment, options=found.options)
        if found.holdout and found.held_out_options:
            with pytest.raises(EnvConfigError, match="kept for evaluation"):
                refuse_levels(section, found.make())
        elif not found.holdout:
            refuse_levels(section, found.make())
