"""Vectorised environments: N episodes of one game at once, on arrays.

    from srl_envs import vector
    games = vector.make("coop_compete_v0", 4096, num_agents=2)
    observations, infos = games.reset(seed=0)                 # float32 (N, A, features)
    observations, rewards, terminations, truncations, infos = games.step(actions)   # int (N, A)

The games of choosing, the bandit and the mazes have their rules on arrays; trading and negotiation
are looped (see Looped). Environment i is the single environment seeded with `seed + i`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from srl_envs import registry
from srl_envs.errors import EnvConfigError
from srl_envs.games.bandit.env import Bandit
from srl_envs.games.bandit.vector import VectorBandit
from srl_envs.games.base import SimultaneousGame
from srl_envs.games.coop_compete.env import CoopCompete
from srl_envs.games.coop_compete.vector import VectorCoopCompete
from srl_envs.games.maze.env import Maze
from srl_envs.games.maze.vector import VectorMaze
from srl_envs.games.staged.env import Staged
from srl_envs.games.staged.vector import VectorStaged
from srl_envs.games.team_battle.env import TeamBattle
from srl_envs.games.team_battle.vector import VectorTeamBattle
from srl_envs.vector.array_env import ArrayGame
from srl_envs.vector.gymnasium_adapter import JointVectorEnv, SeatVectorEnv, gymnasium_vector
from srl_envs.vector.loop import Looped
from srl_envs.vector.vector_env import VectorGame

if TYPE_CHECKING:
    from srl_envs.vector.stable_baselines3_adapter import SeatVecEnv

__all__ = [
    "ArrayGame",
    "AutoresetMode",
    "JointVectorEnv",
    "Looped",
    "SeatVectorEnv",
    "VectorGame",
    "gymnasium_vector",
    "make",
    "stable_baselines3_vector",
]

ON_ARRAYS: dict[type[SimultaneousGame], Any] = {
    CoopCompete: VectorCoopCompete,
    TeamBattle: VectorTeamBattle,
    Staged: VectorStaged,
    Bandit: VectorBandit,
    Maze: VectorMaze,
}
"""The single environment -> its rules on arrays."""


def make(
    name: str,
    num_envs: int = 1,
    autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
    **parameters: Any,
) -> VectorGame:
    """`num_envs` environments `name` of the catalogue; `parameters` are the single environment's.

    Raises EnvConfigError for what `srl_envs.make` refuses, for games that are played in words, and
    for another `obs_mode` than "vector" or a `render_mode`: those are of single environments.
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
    if type(game) in ON_ARRAYS:
        family = ON_ARRAYS[type(game)]
        made: VectorGame = family(game, num_envs, autoreset_mode)
        return made
    return Looped(lambda: registry.make(name, **parameters), num_envs, autoreset_mode)


def stable_baselines3_vector(game: VectorGame) -> SeatVecEnv:
    """`game` as Stable-Baselines3's VecEnv, with an environment for each seat.

    Raises EnvConfigError without Stable-Baselines3, or where the game's `autoreset_mode` is not
    "SameStep".
    """
    try:
        from srl_envs.vector.stable_baselines3_adapter import SeatVecEnv
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "stable_baselines3":
            raise
        raise EnvConfigError(
            "Stable-Baselines3 is not installed: pip install stable-baselines3"
        ) from error
    return SeatVecEnv(game)
