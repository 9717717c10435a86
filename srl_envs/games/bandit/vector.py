"""The changing bandit on arrays, by the rules of srl_envs.games.bandit.env."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from srl_envs.games.bandit.env import LOSS, OBSERVATION_FIELDS, WIN, Bandit
from srl_envs.vector.array_env import ArrayGame, Played
from srl_envs.vector.vector_env import broadcast_to_agents, sum_over_agents

FIRST, OWN, REWARD, OTHERS, OTHERS_REWARD, TIME, SWITCHED = range(len(OBSERVATION_FIELDS))


class VectorBandit(ArrayGame):
    """The game of the single environment."""

    def __init__(self, game: Bandit, num_envs: int, autoreset_mode: AutoresetMode | str) -> None:
        super().__init__(game, num_envs, autoreset_mode, draw=np.random.Generator.random)
        self._switch = game.switch_pull
        self._shows_switch = game.observe_switch
        chances = np.array(game._chances)
        self._chances = chances.ravel()  # by case
        self._regrets = (chances.max(axis=1, keepdims=True) - chances).ravel()
        self._first = np.array(game.first_rows({}), np.float32)
        self._after = np.zeros(self.num_envs, bool)
        self._case = np.zeros(self._shape, np.int64)  # 2 * (whether the arm has changed) + arm

    def play_round(self, chosen: np.ndarray, over: np.ndarray, resting: np.ndarray) -> Played:
        """One round."""
        self._after = self._played > self._switch
        self._case = self.per_agent(2 * self._after) + chosen
        rewards = np.where(self.rng.next(resting) < self._chances.take(self._case), WIN, LOSS)
        seen, others = self._observations, self.num_agents - 1
        seen[..., FIRST] = 0.0
        seen[..., OWN] = chosen
        seen[..., REWARD] = rewards
        if others:  # alone, both stay what they were at first
            seen[..., OTHERS] = (sum_over_agents(chosen)[:, None] - chosen) / others
            seen[..., OTHERS_REWARD] = (sum_over_agents(rewards)[:, None] - rewards) / others
        self.show_time(seen[..., TIME])
        if self._shows_switch:
            broadcast_to_agents(seen[..., SWITCHED], self._played >= self._switch)
        return rewards, None

    def round_infos(self) -> dict[str, Any]:
        """The phase, and what the better arm would have won more often."""
        phases = self.per_agent(np.where(self._after, "after", "before").astype(object))
        return {"phase": phases, "regret": self._regrets.take(self._case)}
