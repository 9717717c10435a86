"""Environments by their documented names, each of whose rewards a function may replace."""

from __future__ import annotations

from enum import Enum
from typing import Any

from srl_envs import registry
from srl_envs.games.coop_compete import CoopCompete
from srl_envs.validation import check_choice
from srl_envs.wrappers import CustomRewards, RewardFunction

COMPLEXITIES = ("simple", "medium", "complex")
"""The documented mazes."""


class EnvironmentType(Enum):
    """Kinds of games."""

    COOP_COMPETE = "coop_compete"
    TEAM_BATTLE = "team_battle"
    STAGED = "staged"
    MAZE = "maze"
    SOCIAL = "social"
    CUSTOM = "custom"
    """Any other PettingZoo ParallelEnv."""


class MultiModelTrainingEnvironment(CustomRewards):
    """A PettingZoo ParallelEnv that several models play; `reward_function` replaces its rewards.

    `reward_function(model_output, context)` is given an answer as it was written, and a
    srl_envs.wrappers.RewardContext; None keeps the game's own rewards. All else is
    the game's. Raises EnvConfigError for what is no ParallelEnv, or no function.
    """

    def __init__(
        self,
        env: Any,
        environment_type: EnvironmentType = EnvironmentType.CUSTOM,
        reward_function: RewardFunction | None = None,
    ) -> None:
        super().__init__(env, reward_function)
        self.environment_type = EnvironmentType(environment_type)

    @property
    def num_models(self) -> int:
        """Its agents, whom a model each may play."""
        return len(self.possible_agents)


class CoopCompeteEnv(CoopCompete):
    """The two-player benchmark game: agreeing pays, disagreeing costs both."""

    def __init__(
        self, horizon: int = 32, coop_level: float = 0.6, difficulty: float = 0.3, **options: Any
    ) -> None:
        """Rounds per episode, the share that cooperation pays and the noise's size, 0 to 1; further
        `options` are CoopCompete's."""
        super().__init__(
            num_agents=2,
            variant="pair",
            cooperation_level=coop_level,
            difficulty=difficulty,
            max_cycles=horizon,
            **options,
        )


def _made(kind: EnvironmentType, name: str, **options: Any) -> MultiModelTrainingEnvironment:
    return MultiModelTrainingEnvironment(registry.make(name, **options), kind)


def create_multi_model_coop_compete_env(
    num_models: int = 8, cooperation_level: float = 0.6
) -> MultiModelTrainingEnvironment:
    """coop_compete_v0 with one agent per model."""
    return _made(
        EnvironmentType.COOP_COMPETE,
        "coop_compete_v0",
        num_agents=num_models,
        cooperation_level=cooperation_level,
    )


def create_multi_model_team_battle() -> MultiModelTrainingEnvironment:
    """team_battle_v0: two teams of four, and equal rewards in the first 10 episodes of training."""
    return _made(EnvironmentType.TEAM_BATTLE, "team_battle_v0", warmup_episodes=10)


def create_multi_model_staged_env(
    num_models: int = 8, warmup_episodes: int = 50
) -> MultiModelTrainingEnvironment:
    """staged_v0: all earn the same in the first `warmup_episodes` games of training, then interests
    part."""
    return _made(
        EnvironmentType.STAGED,
        "staged_v0",
        num_agents=num_models,
        warmup_episodes=warmup_episodes,
    )


def create_maze_training_env(complexity: str = "medium") -> MultiModelTrainingEnvironment:
    """maze_simple_v0, maze_medium_v0 or maze_complex_v0: one agent finds its way."""
    layout = check_choice("complexity", complexity, COMPLEXITIES)
    return _made(EnvironmentType.MAZE, f"maze_{layout}_v0")


def create_social_training_env(
    scenario: str = "trading", num_models: int = 4
) -> MultiModelTrainingEnvironment:
    """social_v0: 'trading' or 'negotiation' among the models."""
    return _made(EnvironmentType.SOCIAL, "social_v0", scenario=scenario, num_agents=num_models)
