"""Vectorised games are the single environments, number for number."""

import pytest

from tests.srl_envs.vector.singles import compared, names

SETTINGS = [(name, {}) for name in names()] + [
    ("coop_compete_v0", {"num_agents": 1}),
    ("coop_compete_v0", {"num_agents": 12, "base_scale": 0.0, "noise_std": 0.5}),
    ("coop_compete_v0", {"noise_std": 0.0}),
    ("coop_compete_pair_v0", {"base_scale": 0.0, "noise_std": 0.01}),
    ("team_battle_v0", {"team_size": (2, 5), "warmup_episodes": 1}),
    ("team_battle_v0", {"team_size": 9, "warmup_episodes": 0, "noise_std": 0.0}),
    ("staged_v0", {"warmup_episodes": 2}),
    ("staged_v0", {"num_agents": 3, "warmup_episodes": 0, "difficulty": 1.0}),
    ("bandit_v0", {"num_agents": 3, "switch_pull": 4, "observe_switch": False}),
    ("maze_v0", {"loop_share": 0.2, "split": "test"}),
    ("maze_v0", {"width": 4, "height": 3, "view_radius": 2, "split": "any", "max_cycles": 30}),
    ("maze_v0", {"level_seed": 3, "split": "any", "mask_walls": True}),
    ("maze_v0", {"num_levels": 4, "num_agents": 2}),
    ("maze_v0", {"layout": ("A.", "#G"), "max_cycles": 20}),
    ("maze_race_v0", {"num_agents": 3, "layout": ("A.G",)}),
    ("maze_own_v0", {"num_agents": 3, "width": 3, "height": 4, "max_cycles": 30}),
    ("maze_own_v0", {"layout": ("A..G",), "mask_walls": True, "max_cycles": 40}),
    ("maze_meet_v0", {"num_agents": 3, "layout": ("A.", ".G"), "max_cycles": 40}),
    ("social_trading_v0", {"num_agents": 3}),
]
EPISODES = -(-500 // len(SETTINGS))


@pytest.mark.parametrize(("name", "parameters"), SETTINGS)
def test_one_environment_equals_the_single_one(name, parameters):
    assert compared(name, 1, EPISODES, **{"max_cycles": 7, **parameters}) >= EPISODES


@pytest.mark.parametrize(("name", "parameters"), SETTINGS)
def test_five_environments_equal_five_singles(name, parameters):
    seeds = [5, 0, 2**32 + 1, 5, 77]
    compared(name, 5, 15, seeds=seeds, **{"max_cycles": 7, **parameters})


@pytest.mark.parametrize("name", ["team_battle_v0", "staged_v0"])
def test_reset_option_sets_episode_number(name):
    # Episode 19 is a warm-up, episode 20 is not, and the ramp rises from there on.
    compared(name, 3, 9, options={"episode": 18}, warmup_episodes=20, max_cycles=3)


def test_reset_option_selects_the_level():
    compared("maze_v0", 3, 6, options={"level_seed": 2}, max_cycles=3)
