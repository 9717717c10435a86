"""Environments in which policies play some of the agents."""

import asyncio

import pytest

from srl_agents.errors import PolicyError
from srl_agents.partners import WithPartners
from srl_agents.policy import PerAgentPolicy
from srl_agents.rollout import play
from srl_agents.scripted.registry import classic_policy
from srl_envs import check_environment, make

GAMES = {
    "coop_compete_v0": {"num_agents": 4, "max_cycles": 8},
    "team_battle_v0": {"max_cycles": 6},
    "social_trading_v0": {"max_cycles": 8},
    "maze_race_v0": {"max_cycles": 20},
}


@pytest.mark.parametrize(("name", "options"), GAMES.items())
def test_an_episode_with_partners_equals_the_full_episode(name, options):
    env = make(name, **options)
    uniform = classic_policy("uniform", env)
    agents = env.possible_agents
    whole = play(env, dict.fromkeys(agents, uniform), seed=11)
    focal = agents[1]
    part = WithPartners(make(name, **options), {a: uniform for a in agents if a != focal})
    assert part.possible_agents == [focal]
    own = iter(step for turn in whole.turns for step in turn if step.agent == focal)
    observations, _ = part.reset(seed=11)
    while part.agents:
        expected = next(own)
        assert (observations[focal] == expected.observation).all()
        observations, rewards, *_ = part.step({focal: expected.decision.action})
        assert rewards == {focal: expected.reward}
    assert next(own, None) is None
    assert part.step({}) == ({}, {}, {}, {}, {})


def alone(**options):
    """coop_compete_v0 without noise for agent_0, with a partner that draws its actions."""
    env = make("coop_compete_v0", num_agents=2, noise_std=0.0, max_cycles=20, **options)
    return WithPartners(env, {"agent_1": classic_policy("uniform", env)})


def test_passes_the_environment_check():
    def partly():
        env = make("coop_compete_v0", num_agents=4, max_cycles=4)
        return WithPartners(
            env, dict.fromkeys(("agent_1", "agent_3"), classic_policy("tit_for_tat", env))
        )

    check_environment(partly)


class Thinking(PerAgentPolicy):
    """Asynchronous policy that cooperates and counts the released memories."""

    def __init__(self):
        self.left, self.asked = 0, []

    async def act(self, seen, states):
        await asyncio.sleep(0)
        self.asked.append([one.agent for one in seen])
        return super().act(seen, states)

    def decide(self, seen, state):
        from srl_agents.episode import Decision

        return Decision(1, "I cooperate")

    def leave(self, state):
        self.left += 1


def test_asynchronous_partners_are_queried_together_and_released():
    thinking = Thinking()
    env = make("coop_compete_v0", num_agents=3, max_cycles=2)
    game = WithPartners(env, {"agent_0": thinking, "agent_2": thinking})
    game.reset(seed=0)
    game.step({"agent_1": 0})
    assert thinking.asked == [["agent_0", "agent_2"]] and thinking.left == 0
    game.reset()  # broken off
    assert thinking.left == 2
    game.close()
    assert thinking.left == 4


@pytest.mark.parametrize(
    ("partners", "told"),
    [
        (("agent_7",), "got 'agent_7'"),
        (("agent_0", "agent_1"), "must leave out one agent"),
    ],
)
def test_invalid_partners_are_rejected(partners, told):
    env = make("coop_compete_v0", variant="pair", num_agents=2)
    with pytest.raises(PolicyError, match=told):
        WithPartners(env, dict.fromkeys(partners, classic_policy("uniform", env)))
