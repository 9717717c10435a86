"""The documented environments."""

import pytest

from core_srl.environments import (
    CoopCompeteEnv,
    EnvironmentType,
    MultiModelTrainingEnvironment,
    create_maze_training_env,
    create_multi_model_coop_compete_env,
    create_multi_model_staged_env,
    create_multi_model_team_battle,
    create_social_training_env,
)
from srl_envs.errors import EnvConfigError

MADE = {  # documented call -> its kind, its agents, its game
    "coop": (
        lambda: create_multi_model_coop_compete_env(num_models=8, cooperation_level=0.7),
        EnvironmentType.COOP_COMPETE, 8, "coop_compete_v0",
    ),
    "team battle": (
        create_multi_model_team_battle, EnvironmentType.TEAM_BATTLE, 8, "team_battle_v0",
    ),
    "staged": (
        lambda: create_multi_model_staged_env(num_models=8, warmup_episodes=50),
        EnvironmentType.STAGED, 8, "staged_v0",
    ),
    "maze": (
        lambda: create_maze_training_env(complexity="simple"),
        EnvironmentType.MAZE, 1, "maze_v0",
    ),
    "trading": (
        lambda: create_social_training_env("trading", 3),
        EnvironmentType.SOCIAL, 3, "social_trading_v0",
    ),
    "negotiation": (
        lambda: create_social_training_env(scenario="negotiation", num_models=3),
        EnvironmentType.SOCIAL, 3, "social_negotiation_v0",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MADE)
def test_is_made(name):
    make, kind, models, game = MADE[name]
    env = make()
    assert isinstance(env, MultiModelTrainingEnvironment)
    assert (env.environment_type, env.num_models, env.metadata["name"]) == (kind, models, game)
    assert env.reward_function is None
    observations, _ = env.reset(seed=0)
    assert len(observations) == models


def test_settings_reach_the_run():
    assert create_multi_model_coop_compete_env(cooperation_level=0.7).rules.cooperation_level == 0.7
    assert create_multi_model_staged_env(4, warmup_episodes=7).warmup_episodes == 7
    layouts = [create_maze_training_env(name).levels[0] for name in ("simple", "medium", "complex")]
    assert len(set(map(repr, layouts))) == 3
    teams = create_multi_model_team_battle().teams
    assert sorted(teams.values()) == ["team_a"] * 4 + ["team_b"] * 4
    with pytest.raises(EnvConfigError, match="complexity"):
        create_maze_training_env("race")
    with pytest.raises(EnvConfigError, match="scenario"):
        create_social_training_env("gossip", 2)


def test_two_player_benchmark_game():
    env = CoopCompeteEnv(horizon=3, coop_level=0.8, difficulty=0.0)
    assert env.rules.cooperation_level == 0.8
    env.reset(seed=0)
    for _ in range(3):
        assert env.agents
        env.step(dict.fromkeys(env.agents, 1))
    assert not env.agents
