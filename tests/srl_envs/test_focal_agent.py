"""The agent for TRL's environment_factory, and environments of the registry by name."""

import pytest

from srl_envs import make, registry
from srl_envs.errors import EnvConfigError, EnvError
from srl_envs.text import TextEnv
from srl_envs.wrappers import FocalAgent


class Broken(TextEnv):
    def step(self, actions):
        raise EnvError("the server is gone")


def test_a_failed_step_is_raised_again_with_the_reward():
    agent = FocalAgent(Broken(make("bandit_v0", num_agents=1)))
    agent.reset(seed=0)
    with pytest.raises(EnvError, match="gone"):
        agent.play("left")
    with pytest.raises(EnvError, match="gone"):
        agent.get_reward()


def test_an_episode_of_a_focal_agent():
    agent = FocalAgent(TextEnv(make("bandit_v0", num_agents=1, max_cycles=2)))
    assert "left" in agent.reset(seed=0)
    for _ in range(2):
        last = agent.play("left")
    assert last.endswith("The game is over.") and agent.play("left") == "The game is over."
    assert 0 <= agent.get_reward() <= 2
    with pytest.raises(EnvError, match="one agent"):
        FocalAgent(TextEnv(make("coop_compete_v0", num_agents=2)))


@pytest.mark.parametrize("options", [None, {3: 4}])
def test_records_with_invalid_options_are_refused(options):
    with pytest.raises(EnvConfigError, match="options"):
        registry.remake("bandit_v0", options)


def test_trusted_records_may_name_anything():
    assert registry.remake("bandit_v0", {"max_cycles": 3}, trusted=True).max_cycles == 3


def test_the_turn_based_form_is_named_and_checks_the_order():
    env = registry.make_aec("bandit_v0", num_agents=1)
    assert "bandit" in str(env).lower()
    with pytest.raises(AttributeError, match="reset"):
        env.last()
