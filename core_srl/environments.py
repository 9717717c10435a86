"""Environments by their documented names, whose rewards a function may replace."""

from __future__ import annotations

from enum import Enum
from typing import Any

from srl_envs import registry
from srl_envs.games.coop_compete import CoopCompete
from srl_envs.validation import check_choice
from srl_envs.wrappers import CustomRewards, RewardFunction


class EnvironmentType(Enum):
    """Kinds of environments of a MultiModelTrainingEnvironment."""

    COOP_COMPETE = "coop_compete"
    TEAM_BATTLE = "team_battle"
    STAGED = "staged"
    MAZE = "maze"
    SOCIAL = "social"
    CUSTOM = "custom"
    """Any other PettingZoo ParallelEnv."""


class MultiModelTrainingEnvironment(CustomRewards):
    """PettingZoo ParallelEnv for several models; `reward_function` replaces its rewards.

    Args:
        env: PettingZoo ParallelEnv; EnvConfigError for other objects.
        environment_type: Kind of the environment, without effect.
        reward_function: Function `f(model_output, context)`; None keeps the environment's rewards.
            `model_output` is the answer as written, or the action if it has no text; `context` is
            a srl_envs.wrappers.RewardContext.
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
        """Number of agents that models can play."""
        return len(self.possible_agents)


class CoopCompeteEnv(CoopCompete):
    """Game coop_compete_v0 of two agents, variant "pair": different choices cost both 0.1.

    Args:
        horizon: Number of steps of an episode.
        coop_level: Weight of cooperation, 0 to 1; competition has the rest.
        difficulty: Reduction of the base reward, 0 to 1.

    Raises:
        EnvConfigError: An argument is out of range.
    """

    def __init__(self, horizon: int = 32, coop_level: float = 0.6, difficulty: float = 0.3) -> None:
        super().__init__(
            num_agents=2,
            variant="pair",
            cooperation_level=coop_level,
            difficulty=difficulty,
            max_cycles=horizon,
        )


def create_multi_model_coop_compete_env(
    num_models: int = 8, cooperation_level: float = 0.6
) -> MultiModelTrainingEnvironment:
    """Create coop_compete_v0 with `num_models` agents; EnvConfigError for a value not allowed.

    `cooperation_level`, 0 to 1, is the weight of cooperation; competition has the rest.
    """
    options = {"num_agents": num_models, "cooperation_level": cooperation_level}
    return _make(EnvironmentType.COOP_COMPETE, "coop_compete_v0", **options)


def create_multi_model_team_battle() -> MultiModelTrainingEnvironment:
    """Create team_battle_v0 with two teams of four.

    Rewards are equal in the first 10 episodes, counted from the last reset with a seed.
    """
    return _make(EnvironmentType.TEAM_BATTLE, "team_battle_v0", warmup_episodes=10)


def create_multi_model_staged_env(
    num_models: int = 8, warmup_episodes: int = 50
) -> MultiModelTrainingEnvironment:
    """Create staged_v0 for `num_models` agents; EnvConfigError for a value not allowed.

    Rewards are equal in the first `warmup_episodes`, counted from the last reset with a seed.
    """
    options = {"num_agents": num_models, "warmup_episodes": warmup_episodes}
    return _make(EnvironmentType.STAGED, "staged_v0", **options)


def create_maze_training_env(complexity: str = "medium") -> MultiModelTrainingEnvironment:
    """Create a maze for one agent; EnvConfigError unless "simple", "medium" or "complex"."""
    layout = check_choice("complexity", complexity, ("simple", "medium", "complex"))
    return _make(EnvironmentType.MAZE, f"maze_{layout}_v0")


def create_social_training_env(
    scenario: str = "trading", num_models: int = 4
) -> MultiModelTrainingEnvironment:
    """Create social_v0 for "trading" or "negotiation"; EnvConfigError for a value not allowed."""
    return _make(EnvironmentType.SOCIAL, "social_v0", scenario=scenario, num_agents=num_models)


def _make(kind: EnvironmentType, name: str, **options: Any) -> MultiModelTrainingEnvironment:
    return MultiModelTrainingEnvironment(registry.make(name, **options), kind)
