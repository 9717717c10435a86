"""Gymnasium adapter: vectorised games as `gymnasium.vector.VectorEnv`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector.utils import batch_space

from srl_envs.errors import EnvError
from srl_envs.vector.vector_env import Step, VectorGame


class AgentVectorEnv(gymnasium.vector.VectorEnv[np.ndarray, np.ndarray, np.ndarray]):
    """Every agent of every environment of `game` as a sub-environment, for one policy.

    Sub-environment i * A + a is agent a of environment i, as in SuperSuit. Agents of one
    environment are reset together: seeds are those of the N environments, and a reset mask must
    mark all or none of an environment's agents.
    """

    def __init__(self, game: VectorGame) -> None:
        self.game = game
        self.num_envs = game.num_envs * game.num_agents
        self.metadata = {**game.metadata, "autoreset_mode": game.autoreset_mode}
        self.single_observation_space = game.single_observation_space
        self.single_action_space = game.single_action_space
        self.observation_space = batch_space(game.single_observation_space, self.num_envs)
        self.action_space = batch_space(game.single_action_space, self.num_envs)

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin episodes; see VectorGame.reset."""
        given = dict(options or {})
        mask = given.pop("reset_mask", None)
        if mask is not None:
            mask = self._of_games(mask)
        observations, infos = self.game.reset(seed, given, mask)
        return self._flat(observations), self._infos(infos)

    def step(self, actions: np.ndarray) -> Step:
        """Play one round with an action for every sub-environment."""
        given = np.asarray(actions)
        if given.shape != (self.num_envs,):
            raise EnvError(
                f"actions must be one for each of {self.num_envs} agents, got shape {given.shape}"
            )
        agents = given.reshape(self.game.num_envs, self.game.num_agents)
        observations, *outcome, infos = self.game.step(agents)
        rewards, terminations, truncations = map(self._flat, outcome)
        return self._flat(observations), rewards, terminations, truncations, self._infos(infos)

    def close_extras(self, **kwargs: Any) -> None:
        """Close the game."""
        self.game.close()

    def _flat(self, values: np.ndarray) -> np.ndarray:
        return values.reshape(self.num_envs, *values.shape[2:])

    def _infos(self, infos: Mapping[str, Any]) -> dict[str, Any]:
        flat: dict[str, Any] = {
            key: self._infos(value) if isinstance(value, dict) else self._flat(value)
            for key, value in infos.items()
        }
        if "final_obs" in flat:
            objects = np.full(self.num_envs, None, object)  # the form of Gymnasium's final_obs
            for i in flat["_final_obs"].nonzero()[0].tolist():
                objects[i] = flat["final_obs"][i]
            flat["final_obs"] = objects
        return flat

    def _of_games(self, mask: Any) -> np.ndarray:
        agents = np.asarray(mask)
        if agents.shape != (self.num_envs,) or agents.dtype != bool:
            raise EnvError(
                f"a reset mask must be a bool array of shape ({self.num_envs},), got {mask!r}"
            )
        by_game = agents.reshape(self.game.num_envs, self.game.num_agents)
        if (by_game.any(axis=1) != by_game.all(axis=1)).any():
            raise EnvError("a reset mask must mark all agents of an environment or none")
        return np.asarray(by_game.all(axis=1))
