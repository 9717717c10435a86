"""One agent of a game in words as an object with tools, as TRL's `environment_factory` wants it."""

from __future__ import annotations

from typing import Any

from srl_envs.errors import EnvError
from srl_envs.text.spaces import ANSWER_LENGTH


class FocalAgent:
    """The one agent of `game`, a ParallelEnv in words in which partners play the others.

    TRL makes a tool of every public method but `reset` and `get_reward`, and one such object per
    completion that is under way at once. Tools that raise are a failed call to TRL, which goes on;
    so a game that was spoilt raises its EnvError when its reward is asked for. Raises EnvError for
    a game that has several agents left.
    """

    def __init__(self, game: Any) -> None:
        if len(game.possible_agents) != 1:
            raise EnvError(
                f"{', '.join(game.possible_agents)} are left to one model: name partners for all "
                "agents but one"
            )
        self._game = game
        [self._agent] = game.possible_agents
        self._earned = 0.0
        self._spoilt: EnvError | None = None

    def reset(self, seed: int | None = None, **row: Any) -> str:
        """Start an episode from the row's `seed`; the rules and the first situation."""
        self._earned, self._spoilt = 0.0, None
        observations, _ = self._game.reset(seed=seed)
        told: str = observations[self._agent]
        return told

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
        told: str = seen[self._agent]
        return told if self._game.agents else f"{told}\nThe game is over."

    def get_reward(self) -> float:
        """The return of what was played since the last reset."""
        if self._spoilt is not None:
            raise self._spoilt
        return self._earned
