"""Cooperate or compete, on arrays: the rules of srl_envs.games.coop_compete.env."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from srl_envs.games.coop_compete.env import OBSERVATION_FIELDS, CoopCompete
from srl_envs.vector.array_env import ArrayGame, counted
from srl_envs.vector.vector_env import give_seats

FIRST, OWN, OTHERS, REWARD, TIME, _, _ = range(len(OBSERVATION_FIELDS))


class VectorCoopCompete(ArrayGame):
    """The game of the single environment, both variants."""

    def __init__(
        self, game: CoopCompete, num_envs: int, autoreset_mode: AutoresetMode | str
    ) -> None:
        super().__init__(game, num_envs, autoreset_mode)
        # Looked up by 2 * number of cooperators + action.
        self._payoffs = np.array(game.rules.payoffs()).ravel()
        others = self.num_agents - 1
        seen = [(total - action) / others if others else 0.5 for total, action in self._pairs()]
        self._others = np.array(seen, np.float32)
        self._ratios = np.array([total / self.num_agents for total in range(self.num_agents + 1)])
        self._first = np.array(game.first_rows({}), np.float32)
        self._total = np.zeros(self.num_envs, np.int64)
        self._some_first = False  # whether somebody has seen no round yet
        self._lookup = np.zeros(self._shape, np.int64)

    def _pairs(self) -> list[tuple[int, int]]:
        return [(total, action) for total in range(self.num_agents + 1) for action in (0, 1)]

    def begin(self, who: np.ndarray, options: Mapping[str, Any]) -> None:
        """First observations; no options are known."""
        self._observations[who] = self._first
        self._some_first = True

    def play_round(
        self, chosen: np.ndarray, over: np.ndarray | None, resting: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """One round."""
        self._total = total = counted(chosen)
        give_seats(self._lookup, 2 * total)
        self._lookup += chosen
        rewards = self._payoffs.take(self._lookup)
        rewards += self.noise(resting)
        np.maximum(rewards, 0.0, out=rewards)
        seen = self._observations
        if self._some_first:
            seen[..., FIRST] = 0.0
            self._some_first = False
        seen[..., OWN] = chosen
        seen[..., OTHERS] = self._others.take(self._lookup)
        seen[..., REWARD] = rewards
        self.show_time(seen[..., TIME])
        return rewards, None

    def of_the_round(self) -> dict[str, Any]:
        """The share of all seats that cooperated."""
        return {"cooperation_ratio": self.all_seats(self._ratios.take(self._total))}
