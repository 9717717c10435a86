"""Vectorized environments: N episodes of one game, stepped together on arrays.

    from srl_envs import vector
    games = vector.make("coop_compete_v0", 4096, num_agents=2)
    observations, infos = games.reset(seed=0)                 # float32 (N, A, features)
    observations, rewards, terminations, truncations, infos = games.step(actions)   # int (N, A)

coop_compete, team_battle and mazes for one agent have their rules on arrays (ArrayGame). Other
games with Discrete actions are stepped one by one (SyncVectorGame). Environment i behaves like the
single environment after `reset(seed=seed + i)`.
"""

from typing import Any

from gymnasium import spaces

from srl_envs import registry
from srl_envs.errors import EnvConfigError
from srl_envs.tables import Plugin
from srl_envs.vector.array_env import ArrayGame
from srl_envs.vector.loop import SyncVectorGame
from srl_envs.vector.vector_env import VectorGame

__all__ = ["ArrayGame", "SyncVectorGame", "VectorGame", "make"]


def make(name: str, num_envs: int = 1, **parameters: Any) -> VectorGame:
    """Make an ArrayGame, if there is one for the game and its parameters, else a SyncVectorGame.

    Args:
        name: Name of an environment with Discrete actions, as for `srl_envs.make`.
        num_envs: Number of environments N, at least 1.
        **parameters: Keyword arguments of the single environment. `obs_mode` must be "vector" and
            `render_mode` None.

    Raises:
        EnvConfigError: A name or argument is invalid, or the spaces do not fit.
    """
    game = registry.make(name, **parameters)
    acts = game.action_space(game.possible_agents[0])
    if not isinstance(acts, spaces.Discrete):
        raise EnvConfigError(f"{name} must have Discrete actions to be vectorized, got {acts}")
    for option, allowed in (("obs_mode", "vector"), ("render_mode", None)):
        if getattr(game, option, allowed) != allowed:
            raise EnvConfigError(
                f"{option} must be {allowed!r} for vectorized games, got {getattr(game, option)!r}"
            )
    entry = registry.ENVS.get(name)
    if entry is not None and entry.array_form is not None:
        form: type[ArrayGame] = Plugin(entry.array_form).load()
        if form.fits(game):
            return form(game, num_envs)
    return SyncVectorGame(lambda: registry.make(name, **parameters), num_envs)
