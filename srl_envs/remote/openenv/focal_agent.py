"""One agent of a game at an OpenEnv server, as TRL's `environment_factory` wants it.

trainer = GRPOTrainer(..., environment_factory=partial(FocalAgent, "http://127.0.0.1:8000"))
"""

from __future__ import annotations

from typing import Any

from srl_envs.errors import EnvError
from srl_envs.remote.openenv.games import JointGame
from srl_envs.text.spaces import ANSWER_LENGTH


class FocalAgent:
    """The game's one agent; the others are partners that the server plays.

    TRL makes a tool of every public method but `reset` and `get_reward`, and one such object per
    completion that is under way at once: give a server that many sessions. Tools that raise are a
    failed call to TRL, which goes on; so a game that was spoilt by the server raises EnvError when
    its reward is asked for. Raises EnvError for a game that the server leaves several agents of.
    """

    def __init__(self, url: str, environment: str | None = None) -> None:
        self._game = JointGame(url, environment)
        if len(self._game.possible_agents) != 1:
            raise EnvError(
                f"{url} leaves {', '.join(self._game.possible_agents)} to its clients: serve the "
                "game with partners for all agents but one"
            )
        [self._agent] = self._game.possible_agents
        self._earned = 0.0
        self._spoilt: EnvError | None = None

    def reset(self, seed: int | None = None, **row: Any) -> str:
        """Start an episode from the row's `seed`; the rules and the first situation."""
        self._earned, self._spoilt = 0.0, None
        observations, _ = self._game.reset(seed=seed)
        return observations[self._agent]

    def play(self, answer: str) -> str:
        """Play your next turn of the game.

        Args:
            answer: Your answer, written as the rules say.

        Returns:
            Your situation after the turn.
        """
        if not self._game.agents:
            return "The game is over."
        try:
            # A model may call it with anything, and of any length.
            said = str(answer)[:ANSWER_LENGTH]
            seen, rewards, *_ = self._game.step({self._agent: said})
        except EnvError as error:
            self._spoilt = error
            raise
        self._earned += rewards[self._agent]
        return seen[self._agent] if self._game.agents else f"{seen[self._agent]}\nThe game is over."

    def get_reward(self) -> float:
        """The return of what was played since the last reset."""
        if self._spoilt is not None:
            raise self._spoilt
        return self._earned
