"""Environments on a server equal local environments bit by bit."""

import pytest

import srl_envs
from srl_agents.rollout import play
from srl_agents.scripted.registry import classic_policy, names
from srl_envs.env_checker import _equal as same
from srl_envs.env_checker import check_environment
from srl_envs.games.base import step_baselines
from srl_envs.text import TextEnv

GAMES = [
    ("coop_compete_v0", {"num_agents": 3, "max_cycles": 6}),
    ("team_battle_v0", {"max_cycles": 4, "obs_mode": "dict"}),
    ("coop_compete_v1", {"max_cycles": 6, "turnover": 3, "talk": 1}),
    ("maze_meet_v0", {"width": 5, "height": 5, "max_cycles": 12, "mask_walls": True}),
    ("social_trading_v0", {"max_cycles": 6, "obs_mode": "llm"}),
    ("social_negotiation_v0", {"max_cycles": 6}),
    ("math_v0", {"num_agents": 2, "max_cycles": 3}),
    ("tool_use_v0", {"max_cycles": 3}),
    ("debate_v0", {"max_cycles": 4}),
]
every_game = pytest.mark.parametrize(("name", "options"), GAMES, ids=[name for name, _ in GAMES])


def trajectory(env, seed, episodes=2):
    """All that the environment gives for legal actions drawn alike."""
    for place, agent in enumerate(env.possible_agents):
        env.action_space(agent).seed(seed + place)
    given = []
    for episode in range(episodes):
        # The second episode continues the random stream of the first.
        turn = env.reset(seed=None if episode else seed)
        given.append(turn)
        while env.agents:
            given.append(list(env.agents))
            masks = {agent: turn[-1][agent].get("action_mask") for agent in env.agents}
            turn = env.step({agent: drawn(env, agent, masks[agent]) for agent in env.agents})
            given.append(turn)
    return given


def drawn(env, agent, mask):
    space = env.action_space(agent)
    return space.sample(mask) if mask is not None else space.sample()


@every_game
def test_trajectories_are_bit_identical(everything, name, options):
    local, remote = srl_envs.make(name, **options), everything.env(name, **options)
    assert same(trajectory(local, seed=5), trajectory(remote, seed=5))
    remote.close()


@every_game
def test_constant_attributes_equal_the_local_ones(everything, name, options):
    local, remote = srl_envs.make(name, **options), everything.env(name, **options)
    assert remote.possible_agents == local.possible_agents
    assert remote.metadata == local.metadata
    assert remote.max_cycles == local.max_cycles
    assert remote.teams == local.teams
    assert remote.baselines() == step_baselines(local)
    for agent in local.possible_agents:
        assert remote.observation_space(agent) == local.observation_space(agent)
        assert remote.action_space(agent) == local.action_space(agent)


@pytest.mark.parametrize("name", ["coop_compete_v0", "social_negotiation_v0"])
def test_scripted_policies_play_games_with_words(everything, name):
    returns = []
    for env in (
        srl_envs.make(name, talk=2, max_cycles=6),
        everything.env(name, talk=2, max_cycles=6),
    ):
        policy = classic_policy(names(env)[-1], env)
        returns.append(play(env, dict.fromkeys(env.possible_agents, policy), 3).returns())
    assert returns[0] == returns[1]


def test_conforms_to_the_environment_api(everything):
    check_environment(lambda: everything.env("team_battle_v0", max_cycles=4, obs_mode="dict"))


def test_text_answers_are_parsed_as_locally(everything):
    for name, given in (
        ("multitask_v0", {"environments": {"talk": {"name": "math_v0"}}, "max_cycles": 2}),
        ("social_trading_v0", {"messages": True, "obs_mode": "llm"}),
    ):
        texts = []
        for env in (srl_envs.make(name, **given), everything.env(name, **given)):
            words = TextEnv(env)
            seen, _ = words.reset(seed=3)
            said = {agent: f"I greet you.\n{first_answer(env, agent)}" for agent in env.agents}
            texts.append((seen, words.step(said)))
        assert same(*texts)


def first_answer(env, agent):
    return (env.unwrapped.text_view.answers(agent) or ["Yes."])[0]
