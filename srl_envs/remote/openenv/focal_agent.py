"""One agent of a game at an OpenEnv server, as TRL's `environment_factory` wants it.

trainer = GRPOTrainer(..., environment_factory=partial(FocalAgent, "http://127.0.0.1:8000"))
"""

from __future__ import annotations

from srl_envs import text
from srl_envs.remote.openenv.games import JointGame


class FocalAgent(text.FocalAgent):
    """The game's one agent; the others are partners that the server plays.

    Give the server as many sessions as completions are under way at once. Raises EnvError for a
    game that the server leaves several agents of.
    """

    def __init__(self, url: str, environment: str | None = None) -> None:
        super().__init__(JointGame(url, environment))
