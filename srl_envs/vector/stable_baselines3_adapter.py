"""Stable-Baselines3 adapter: vectorised games as VecEnv.

Imported only where it is asked for: Stable-Baselines3 is no requirement and brings torch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from stable_baselines3.common.vec_env import VecEnv

from srl_envs.errors import EnvConfigError
from srl_envs.vector.gymnasium_adapter import AgentVectorEnv
from srl_envs.vector.vector_env import VectorGame

_MASKS = "action_masks"  # as MaskablePPO of sb3-contrib calls them


class AgentVecEnv(VecEnv):  # type: ignore[misc]
    """Every agent of every environment as one of the N * A environments of the vector.

    Environment i * A + a is agent a of game i. `seed(s)` seeds game i with s + i at the next reset;
    options of `set_options` are all games' and must be equal. `game` is the vectorised game.
    """

    def __init__(self, game: VectorGame) -> None:
        """Raises EnvConfigError unless the game's `autoreset_mode` is the one SB3 expects."""
        if game.autoreset_mode != AutoresetMode.SAME_STEP:
            raise EnvConfigError(
                f"Stable-Baselines3 resets within the step that ends an episode, and the game's "
                f"autoreset_mode is {game.autoreset_mode.value!r}: give "
                f"{AutoresetMode.SAME_STEP.value!r}"
            )
        self.game = game
        self._agents = AgentVectorEnv(game)
        self._masks = np.empty(0)
        self._chosen = np.empty(0, dtype=np.int64)
        super().__init__(
            self._agents.num_envs,
            self._agents.single_observation_space,
            self._agents.single_action_space,
        )

    def reset(self) -> np.ndarray:
        """Begin all episodes, with the seeds and options that were given since the last time."""
        if any(options != self._options[0] for options in self._options):
            raise EnvConfigError("all agents are reset alike: give set_options one dictionary")
        seed = self._seeds[0]
        observations, infos = self._agents.reset(seed=seed, options=self._options[0])
        self._reset_seeds()
        self._reset_options()
        self._masks = infos["action_mask"]
        return observations

    def step_async(self, actions: np.ndarray) -> None:
        """Take the actions of the next round."""
        self._chosen = actions

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Play the round; observations of an ended episode are those of the next one's start."""
        observations, rewards, terminated, truncated, infos = self._agents.step(self._chosen)
        self._masks = infos["action_mask"]
        ended = terminated | truncated
        told: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for index in ended.nonzero()[0].tolist():
            told[index] = {
                "terminal_observation": infos["final_obs"][index],
                "TimeLimit.truncated": bool(truncated[index] and not terminated[index]),
            }
        return observations, rewards.astype(np.float32), ended, told

    def close(self) -> None:
        """Close the game."""
        self._agents.close()

    def get_attr(self, attr_name: str, indices: int | Iterable[int] | None = None) -> list[Any]:
        """An attribute of the game, once per environment."""
        if attr_name == _MASKS:
            value = self._masks_of
        elif attr_name == "render_mode":
            value = None  # vectorised games are not drawn
        else:
            value = getattr(self.game, attr_name)
        return [value for _ in self._get_indices(indices)]

    def set_attr(
        self, attr_name: str, value: Any, indices: int | Iterable[int] | None = None
    ) -> None:
        """Refused: what is set of one agent would be set of all."""
        raise EnvConfigError(f"{attr_name} cannot be set of agents apart: make the game with it")

    def env_method(
        self,
        method_name: str,
        *method_args: Any,
        indices: int | Iterable[int] | None = None,
        **method_kwargs: Any,
    ) -> list[Any]:
        """`action_masks`, which MaskablePPO of sb3-contrib calls; nothing else is an agent's
        own."""
        if method_name != _MASKS:
            raise EnvConfigError(f"agents have no method {method_name!r}, only {_MASKS!r}")
        return self._masks_of(self._get_indices(indices))

    def env_is_wrapped(
        self, wrapper_class: type[Any], indices: int | Iterable[int] | None = None
    ) -> list[bool]:
        """Never: the environments are rows of arrays."""
        return [False for _ in self._get_indices(indices)]

    def _masks_of(self, indices: Iterable[int]) -> list[np.ndarray]:
        return [self._masks[index].astype(bool) for index in indices]
