"""Arguments that the constructors of games refuse, with one line that names the allowed values."""

import pytest

from srl_envs import make
from srl_envs.errors import EnvConfigError


@pytest.mark.parametrize(
    ("name", "parameters", "said"),
    [
        ("coop_compete_v0", {"noise_std": -0.1}, "noise_std must be a number between 0 and"),
        ("coop_compete_v0", {"max_cycles": 0}, "max_cycles must be a whole number of at least 1"),
        ("coop_compete_v0", {"obs_mode": "text"}, "obs_mode must be one of 'vector', 'dict'"),
        ("coop_compete_v0", {"render_mode": "gif"}, "render_mode must be one of None, 'human'"),
        ("coop_compete_v0", {"difficulty": 1.5}, "difficulty must be a number between 0 and 1"),
        ("coop_compete_v0", {"variant": "trio"}, "variant must be one of 'population', 'pair'"),
        ("coop_compete_v0", {"base_scale": float("inf")}, "base_scale must be a number between"),
        ("team_battle_v0", {"team_size": (1, 2, 3)}, "team_size must be one number or (red, blue)"),
        ("team_battle_v0", {"team_size": "44"}, "team_size must be a whole number from 1 to 10000"),
        ("staged_v0", {"warmup_episodes": 2.5}, "warmup_episodes must be a whole number"),
        ("bandit_v0", {"arm0_prob": 1.2}, "arm0_prob must be a number between 0 and 1, got 1.2"),
        ("bandit_v0", {"observe_switch": 1}, "observe_switch must be True or False, got 1"),
        ("maze_v0", {"layout": "hard"}, "layout must be one of 'simple', 'medium', 'complex'"),
        ("maze_v0", {"layout": ["A.", ".."]}, "one A and one G"),
        ("maze_v0", {"layout": ["AG"], "num_agents": 3, "task": "own"}, "only 2 cells for 3"),
        ("maze_v0", {"loop_share": 1.1}, "loop_share must be a number between 0 and 1, got 1.1"),
        ("social_trading_v0", {"num_agents": 1}, "num_agents must be a whole number from 2 to 10"),
        ("social_trading_v0", {"agreements": "loose"}, "agreements must be one of 'promised'"),
        ("social_negotiation_v0", {"discount": 2}, "discount must be a number between 0 and 1"),
    ],
)
def test_wrong_arguments(name, parameters, said):
    with pytest.raises(EnvConfigError) as caught:
        make(name, **parameters)
    assert said in str(caught.value) and "\n" not in str(caught.value)
