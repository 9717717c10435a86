"""Cooperate or compete on arrays, by the rules of srl_envs.games.coop_compete.env."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from srl_envs.games.coop_compete.env import OBSERVATION_FIELDS, CoopCompete
from srl_envs.vector.array_env import ArrayGame, Played
from srl_envs.vector.vector_env import sum_over_agents

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
        cases = [(total, action) for total in range(self.num_agents + 1) for action in (0, 1)]
        seen = [(total - action) / others if others else 0.5 for total, action in cases]
        self._others = np.array(seen, np.float32)
        self._ratios = np.array([total / self.num_agents for total in range(self.num_agents + 1)])
        self._first = np.array(game.first_rows({}), np.float32)
        self._total = np.zeros(self.num_envs, np.int64)

    def play_round(self, chosen: np.ndarray, over: np.ndarray, resting: np.ndarray) -> Played:
        """One round."""
        self._total = sum_over_agents(chosen)
        case = self.per_agent(2 * self._total)
        case += chosen
        rewards = self._payoffs.take(case)
        rewards += self.noise(resting)
        np.maximum(rewards, 0.0, out=rewards)
        seen = self._observations
        seen[..., FIRST] = 0.0
        seen[..., OWN] = chosen
        seen[..., OTHERS] = self._others.take(case)
        seen[..., REWARD] = rewards
        self.show_time(seen[..., TIME])
        return rewards, None

    def round_infos(self) -> dict[str, Any]:
        """The share of all agents that cooperated."""
        return {"cooperation_ratio": self.per_agent(self._ratios.take(self._total))}
