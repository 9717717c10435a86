"""Gymnasium environments of one agent, as in `gymnasium.make("srl_envs:srl/Maze-v0")`."""

from __future__ import annotations

from typing import Any

import gymnasium
from gymnasium import spaces

from srl_envs import registry
from srl_envs.errors import EnvConfigError


class SingleAgentEnv(gymnasium.Env[Any, Any]):
    """The only agent of a PettingZoo ParallelEnv, as Gymnasium wants it.

    Observations, actions and infos are the agent's; `game` is the environment itself. Raises
    EnvConfigError for a game of several agents.
    """

    def __init__(self, game: Any) -> None:
        if len(game.possible_agents) != 1:
            raise EnvConfigError(
                f"Gymnasium plays one agent, and the game has {len(game.possible_agents)}: "
                "give num_agents=1, or use it as a PettingZoo environment"
            )
        self.game = game
        [self._agent] = game.possible_agents
        self.metadata = game.metadata
        self.render_mode = game.render_mode
        self.observation_space: spaces.Space[Any] = game.observation_space(self._agent)
        self.action_space: spaces.Space[Any] = game.action_space(self._agent)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode; see the game."""
        super().reset(seed=seed)
        observations, infos = self.game.reset(seed=seed, options=options)
        return observations[self._agent], infos[self._agent]

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Play one round."""
        seen, rewards, terminations, truncations, infos = self.game.step({self._agent: action})
        agent = self._agent
        return seen[agent], rewards[agent], terminations[agent], truncations[agent], infos[agent]

    def render(self) -> Any:
        """As the game's render mode wants it."""
        return self.game.render()

    def close(self) -> None:
        """Close the game."""
        self.game.close()


def single_agent_env(name: str, **parameters: Any) -> SingleAgentEnv:
    """The environment `name` of the registry for one agent; `parameters` as for `make`."""
    return SingleAgentEnv(registry.make(name, **parameters))
