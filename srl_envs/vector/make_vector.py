"""Vectorised environments by the names of the registry."""

from __future__ import annotations

from typing import Any

from gymnasium import spaces

from srl_envs import registry
from srl_envs.errors import EnvConfigError
from srl_envs.vector.loop import SyncVectorGame
from srl_envs.vector.vector_env import VectorGame


def make(name: str, num_envs: int = 1, **parameters: Any) -> VectorGame:
    """Return `num_envs` environments `name` of the registry, as `srl_envs.make` makes one.

    Raises:
        EnvConfigError: `srl_envs.make` refuses the arguments, the game is played in words, or
            `obs_mode` or `render_mode` is one of single environments.
    """
    game = registry.make(name, **parameters)
    acts = game.action_space(game.possible_agents[0])
    if not isinstance(acts, spaces.Discrete):
        raise EnvConfigError(
            f"vectorised games are played with Discrete actions, and {name} takes {acts}: "
            "play it with srl_envs.make"
        )
    if getattr(game, "obs_mode", "vector") != "vector":
        raise EnvConfigError(
            f"obs_mode must be 'vector' for vectorised games, got {game.obs_mode!r}: "
            "play single environments for the others"
        )
    if getattr(game, "render_mode", None) is not None:
        raise EnvConfigError(
            f"vectorised games draw nothing, got render_mode={game.render_mode!r}: "
            "render a single environment with the same seed"
        )
    array_form = registry.array_form(name)
    if array_form is not None:
        made: VectorGame = array_form(game, num_envs)
        return made
    return SyncVectorGame(lambda: registry.make(name, **parameters), num_envs)
