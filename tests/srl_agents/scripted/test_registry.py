"""Registry of scripted policies, and its page docs/environments/scenarios.md."""

import re
from pathlib import Path

import pytest
from gymnasium.spaces import Box, Discrete

from srl_agents.errors import PolicyError
from srl_agents.policy import AgentObservation
from srl_agents.rollout import play_many
from srl_agents.scripted.registry import (
    ANY,
    POLICIES,
    alternatives,
    classic_policy,
    entry_of,
    is_held_out,
    is_scripted,
    names,
)  # fmt: skip
from srl_envs import registry, scenarios

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "environments" / "scenarios.md").read_text(encoding="utf-8")
# Environment, options: several legal sizes of every game.
SIZES = [
    ("coop_compete_v0", {"max_cycles": 6, "num_agents": 5}),
    ("coop_compete_pair_v0", {"max_cycles": 6}),
    ("team_battle_v0", {"max_cycles": 6, "team_size": (1, 3)}),
    ("staged_v0", {"max_cycles": 6, "num_agents": 1, "warmup_episodes": 0}),
    ("staged_v0", {"max_cycles": 6, "num_agents": 5, "warmup_episodes": 0}),
    ("bandit_v0", {"max_cycles": 12, "num_agents": 3, "switch_pull": 4}),
    *((name, {}) for name in registry.names() if name.endswith("_v1")),
    ("maze_v0", {"width": 6, "height": 4, "view_radius": 2, "mask_walls": True}),
    ("maze_simple_v0", {"num_agents": 3}),
    ("maze_own_v0", {"obs_mode": "dict", "loop_share": 0.5}),
    ("maze_meet_v0", {"num_agents": 4}),
    ("social_trading_v0", {"num_agents": 2, "goods": 5, "max_quantity": 1}),
    ("social_trading_v0", {"agreements": "binding", "obs_mode": "llm"}),
    ("social_negotiation_v0", {"num_agents": 4, "max_cycles": 9}),
    ("social_negotiation_v0", {"offers": "simultaneous"}),
    ("social_negotiation_v0", {"issues": {"a": ("x", "y")}, "max_cycles": 1}),
]
CASES = [
    pytest.param(name, options, who, id=f"{name}-{number}-{who}")
    for number, (name, options) in enumerate(SIZES)
    for who in names(registry.make(name, **options))
]


@pytest.mark.parametrize(("name", "options", "who"), CASES)
def test_policies_play_legally_and_depend_only_on_their_seed(name, options, who):
    def play():
        env = registry.make(name, **options)
        seats = dict.fromkeys(env.possible_agents, classic_policy(who, env))
        return play_many(lambda: registry.make(name, **options), seats, [0, 1])

    first = play()
    for episode in first:
        assert episode.failure is None
        steps = [step for turn in episode.turns for step in turn]
        assert not any(step.info.get("illegal", False) for step in steps)
    actions = [[s.decision.action for t in e.turns for s in t] for e in first]
    assert actions == [[s.decision.action for t in e.turns for s in t] for e in play()]
    assert all(type(action) is int for episode in actions for action in episode)


def test_can_play():
    maze, pair = registry.make("maze_v0"), registry.make("coop_compete_pair_v0")
    assert set(names(maze)) == {
        "uniform", "random_walker", "greedy_walker", "explorer", "wall_follower",
    }  # fmt: skip
    assert "grim_trigger" in names(pair, holdout=True)
    assert "grim_trigger" not in names(pair, holdout=False)
    assert set(names()) == set(POLICIES)


def test_a_policy_for_another_game_is_rejected():
    maze = registry.make("maze_v0")
    with pytest.raises(PolicyError, match=r"tit_for_tat cannot play maze_v0.*explorer"):
        classic_policy("tit_for_tat", maze)
    with pytest.raises(PolicyError, match=r"no scripted policy 'explorr' .did you mean 'explorer'"):
        classic_policy("explorr", maze)


def test_several_names_are_a_policy_with_the_restrictions_of_each():
    pair = registry.make("coop_compete_pair_v0")
    assert classic_policy("leader|bully", pair).name == "leader|bully"
    assert is_scripted("leader|mybot:Bot") and not is_scripted("leader|openai:gpt")
    assert is_held_out("leader|pavlov") and not is_held_out("leader|bully")
    with pytest.raises(PolicyError, match="no scripted policy 'bullie'"):
        classic_policy("leader|bullie", pair)


def test_uniform_plays_any_game_of_discrete_actions():
    env = registry.make("bandit_v0")
    env.metadata = {"name": "my_own_v0"}
    assert names(env) == ("uniform",)


@pytest.mark.parametrize("name", scenarios.names())
def test_scenarios_name_playable_and_held_out_policies(name):
    scenario = scenarios.scenario(name)
    env = scenario.make()
    background = {who for names in scenario.background.values() for who in alternatives(names)}
    assert all(entry_of(who).can_play(env) for who in background)
    holdout = {who for who in background if entry_of(who).holdout}
    assert holdout == set(scenario.held_out_partners)


def test_uniform_with_different_numbers_of_actions_per_agent():
    env = registry.make("coop_compete_pair_v0")
    env.metadata = {"name": "my_own_v0"}
    env.action_spaces = {"agent_0": Discrete(1), "agent_1": Discrete(5)}
    uniform = classic_policy("uniform", env)
    seen = [AgentObservation(f"agent_{number % 2}", None) for number in range(400)]
    decisions, _ = uniform.act(seen, [uniform.start(seed) for seed in range(400)])
    assert {d.action for d in decisions[0::2]} == {0}
    assert {d.action for d in decisions[1::2]} == {0, 1, 2, 3, 4}
    env.action_spaces = dict.fromkeys(env.possible_agents, Box(0.0, 1.0, (2,)))
    with pytest.raises(PolicyError, match="uniform cannot play my_own_v0, only any game of disc"):
        classic_policy("uniform", env)


def test_the_page_lists_all_partners():
    written = re.findall(r"^\| `(\w+)` \| (.*?) \| (yes)?\s?\| .*? \|$", PAGE, re.MULTILINE)
    assert written == [
        (entry.name, ", ".join(entry.games) or ANY, "yes" if entry.holdout else "")
        for entry in map(entry_of, POLICIES)
    ]
