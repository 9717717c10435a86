"""The bandit that changes, on arrays: the rules of srl_envs.games.bandit.env."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from srl_envs.games.bandit.env import LOSS, OBSERVATION_FIELDS, WIN, Bandit
from srl_envs.games.base import SimultaneousGame
from srl_envs.vector.array_env import ArrayGame, counted
from srl_envs.vector.rng import Draws
from srl_envs.vector.vector_env import give_seats

FIRST, OWN, REWARD, OTHERS, OTHERS_REWARD, TIME, SWITCHED = range(len(OBSERVATION_FIELDS))


class VectorBandit(ArrayGame):
    """The game of the single environment."""

    def __init__(self, game: Bandit, num_envs: int, autoreset_mode: AutoresetMode | str) -> None:
        super().__init__(game, num_envs, autoreset_mode)
        self._switch = game.switch_pull
        self._shows_switch = game.observe_switch
        chances = np.array(game._chances)
        self._chances = chances.ravel()  # by 2 * (whether the arm has changed) + arm
        self._regrets = (chances.max(axis=1, keepdims=True) - chances).ravel()
        self._first = np.array(game.first_rows({}), np.float32)
        self._after = np.zeros(self.num_envs, bool)
        self._lookup = np.zeros(self._shape, np.int64)

    def _drawn(self, game: SimultaneousGame) -> Draws:
        return Draws(self.num_envs, self.num_agents, _uniform)

    def begin(self, who: np.ndarray, options: Mapping[str, Any]) -> None:
        """First observations; no options are known."""
        self._observations[who] = self._first

    def play_round(
        self, chosen: np.ndarray, over: np.ndarray | None, resting: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """One round."""
        self._after = self._played > self._switch
        give_seats(self._lookup, 2 * self._after)
        self._lookup += chosen
        rewards = np.where(self.noise(resting) < self._chances.take(self._lookup), WIN, LOSS)
        seen, others = self._observations, self.num_agents - 1
        seen[..., FIRST] = 0.0
        seen[..., OWN] = chosen
        seen[..., REWARD] = rewards
        if others:  # alone, both stay what they were at first
            seen[..., OTHERS] = (counted(chosen)[:, None] - chosen) / others
            seen[..., OTHERS_REWARD] = (counted(rewards)[:, None] - rewards) / others
        self.show_time(seen[..., TIME])
        if self._shows_switch:
            give_seats(seen[..., SWITCHED], self._played >= self._switch)
        return rewards, None

    def of_the_round(self) -> dict[str, Any]:
        """The phase, and what the better arm would have won more often."""
        phases = self.all_seats(np.where(self._after, "after", "before").astype(object))
        return {"phase": phases, "regret": self._regrets.take(self._lookup)}


def _uniform(generator: np.random.Generator, out: np.ndarray) -> None:
    generator.random(out=out)
