"""Vectorised environments: N episodes of one game at once, on arrays.

    from srl_envs import vector
    games = vector.make("coop_compete_v0", 4096, num_agents=2)
    observations, infos = games.reset(seed=0)                 # float32 (N, A, features)
    observations, rewards, terminations, truncations, infos = games.step(actions)   # int (N, A)

The games of choosing, the bandit and the mazes have their rules on arrays; trading and negotiation
are stepped one by one (SyncVectorGame). Environment i is the single one seeded with `seed + i`.
"""

from srl_envs.vector.array_env import ArrayGame
from srl_envs.vector.loop import SyncVectorGame
from srl_envs.vector.make_vector import make
from srl_envs.vector.vector_env import VectorGame

__all__ = [
    "ArrayGame",
    "SyncVectorGame",
    "VectorGame",
    "make",
]
