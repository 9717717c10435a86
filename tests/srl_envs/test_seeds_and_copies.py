"""Seeds and copies of every registered environment, of its options and of the wrappers."""

import copy
import pickle
from functools import partial

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import data_equivalence

from srl_envs import make
from srl_envs.tasks.tool_use.tools import Tool
from srl_envs.text import TextAction, TextEnv
from srl_envs.wrappers import CustomRewards, with_text
from tests.srl_envs.kinds import KINDS

SHORT = {"max_cycles": 6}
STEPS = 3
WRITTEN = (
    'read_file(path="notes.txt")',
    '<tool_call>{"name": "write_file", "arguments": {"path": "a.txt", "content": "7"}}</tool_call>',
    '<tool_call>{"name": "read_file", "arguments": {"path": "a.txt"}}</tool_call>',
    '<tool_call>{"name": "list_files", "arguments": {}}</tool_call>',
    "I agree, because it is so. For example, trains are fast.",
)
"""Answers in words; the first costs an attempt, the tool calls leave files behind."""


def doubled(number: float) -> float:
    """Double a number.

    Args:
        number: Any number.
    """
    return 2 * number


def liked(output, context):
    """Pay for the agent's round."""
    return context["round"] + context["reward"]


MEMBERS = {
    "teams": {"name": "team_battle_v0", "options": {"team_size": 1, "warmup_episodes": 2}},
    "more": {"name": "team_battle_v0", "options": {"team_size": 1}},
}
CASES = {name: partial(make, name, **SHORT) for name in KINDS} | {
    "team_battle_v0 with a warm-up": partial(
        make, "team_battle_v0", warmup_episodes=2, team_size=(1, 2), **SHORT
    ),
    "staged_v0 with a warm-up": partial(make, "staged_v0", warmup_episodes=2, **SHORT),
    "maze_v0 with few levels": partial(make, "maze_v0", num_levels=3, mask_walls=True, **SHORT),
    "social_trading_v0 with words": partial(
        make, "social_trading_v0", messages=True, obs_mode="llm", **SHORT
    ),
    "social_negotiation_v0 at once": partial(
        make, "social_negotiation_v0", offers="simultaneous", messages=True, obs_mode="llm", **SHORT
    ),
    "tool_use_v0 with tools of one's own": partial(
        make, "tool_use_v0", tools=("calculator", "files", Tool.of(doubled)), **SHORT
    ),
    "tool_use_v0 with Python": partial(make, "tool_use_v0", tools=("files", "python"), **SHORT),
    "debate_v0": partial(make, "debate_v0", **SHORT),
    "multitask_v0 of games": partial(
        make, "multitask_v0", environments=MEMBERS, obs_mode="vector", **SHORT
    ),
    "in words": lambda: TextEnv(make("staged_v0", warmup_episodes=1, **SHORT), history=2),
    "with rewards of one's own": lambda: CustomRewards(make("team_battle_v0", **SHORT), liked),
    "as another's game": lambda: with_text(
        make("coop_compete_v0", **SHORT), rules="Choose.", answers=("compete", "cooperate")
    ),
}


def acts(env, agent, info, rng):
    """A legal action with words, drawn from `rng`."""
    words = WRITTEN[int(rng.integers(len(WRITTEN)))]
    if not isinstance(env.action_space(agent), spaces.Discrete):
        return words
    return TextAction(int(rng.choice(np.flatnonzero(info["action_mask"]))), words)


def played_on(env, infos, rng, steps):
    """Play the next steps; return their outcomes and the last infos."""
    returned = []
    while env.agents and len(returned) < steps:
        outcome = env.step({a: acts(env, a, infos[a], rng) for a in env.agents})
        infos = outcome[4]
        returned.append(copy.deepcopy(outcome))
    return returned, infos


def episode(env, seed=None):
    """Play a whole episode; return all outcomes."""
    first = copy.deepcopy(env.reset(seed=seed))
    return [first, *played_on(env, first[1], np.random.default_rng(1), SHORT["max_cycles"])[0]]


@pytest.mark.parametrize("case", CASES)
def test_seeded_reset_repeats_the_episode_in_new_and_used_environments(case):
    used = CASES[case]()
    for seed in (None, 5, None, None):
        episode(used, seed)
    assert data_equivalence(episode(used, 3), episode(CASES[case](), 3))


@pytest.mark.parametrize("case", CASES)
def test_copies_of_a_new_environment_differ(case):
    env = CASES[case]()
    drawn = set()
    for one in (env, copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        one.reset()
        drawn.add(one.unwrapped.np_random.random())
    assert len(drawn) == 3


@pytest.mark.parametrize("name", [name for name in KINDS if name.endswith("_v1")])
def test_pickled_copies_of_a_new_environment_draw_all_rules_equally_often(name):
    env = make(name, **SHORT)
    rule_sets, pickled, drawn = len(env.rule_sets), pickle.dumps(env), []
    for _ in range(20 * rule_sets):
        one = pickle.loads(pickled)
        one.reset()
        drawn.append(one.step(dict.fromkeys(one.agents, 0))[4]["agent_0"]["rule_set"])
    chi_squared = ((np.bincount(drawn, minlength=rule_sets) - 20) ** 2 / 20).sum()
    freedom = rule_sets - 1  # mean; the variance is twice as large
    assert chi_squared < freedom + 10 * (2 * freedom) ** 0.5


@pytest.mark.parametrize("case", CASES)
def test_copy_within_an_episode_continues_identically(case):
    env = CASES[case]()
    rng = np.random.default_rng(2)
    _, infos = played_on(env, env.reset(seed=7)[1], rng, STEPS)
    twin, twins_rng = pickle.loads(pickle.dumps(env)), copy.deepcopy(rng)
    rest, _ = played_on(env, infos, rng, SHORT["max_cycles"])
    assert data_equivalence(played_on(twin, infos, twins_rng, SHORT["max_cycles"])[0], rest)
    assert data_equivalence(episode(twin), episode(env))  # of the same stream
