"""Once all have left, no actions bring nothing, in every environment and wrapper."""

import pytest

from srl_envs import registry
from srl_envs.errors import EnvError
from srl_envs.text import TextEnv
from srl_envs.wrappers import CustomRewards
from tests.srl_envs.kinds import KINDS

NOTHING = ({},) * 5


def until_the_end(env, answer):
    env.reset(seed=0)
    while env.agents:
        actions = {agent: answer(env.action_space(agent)) for agent in env.agents}
        env.step(actions)


def sampled(space):
    return space.sample() if not hasattr(space, "max_length") else "Answer: 1"


@pytest.mark.parametrize("name", KINDS)
def test_a_step_after_the_end_brings_nothing(name):
    games = [registry.make(name, max_cycles=2)]
    games += [CustomRewards(registry.make(name, max_cycles=2))]
    games += [TextEnv(registry.make(name, max_cycles=2), history=turns) for turns in (None, 3)]
    for env in games:
        with pytest.raises(EnvError, match=r"reset\(\)"):
            env.step({})
        until_the_end(env, sampled)
        assert env.step({}) == NOTHING  # SuperSuit's black_death asks for it
        until_the_end(env, sampled)  # and the next episode is played as ever
        env.close()
