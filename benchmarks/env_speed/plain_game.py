"""coop_compete for two as a user would write it in an afternoon: dicts of floats, nothing checked.

It does the work that the environment does: payoffs with noise, every field of the observation, and
PettingZoo's five dicts. It checks no action, has no spaces and no masks, and hands out no arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

AGENTS = ("agent_0", "agent_1")
LEVEL, DIFFICULTY, WEIGHT, NOISE = 0.6, 0.3, 0.25, 0.05


class PlainGame:
    """The population variant with its default numbers, for two."""

    def __init__(self, rounds: int = 1000) -> None:
        self.rounds = rounds
        self.agents: list[str] = []
        self._generator = np.random.default_rng()
        self._played = 0

    def reset(self, seed: int | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """Start an episode."""
        if seed is not None:
            self._generator = np.random.default_rng(seed)
        self._played = 0
        self.agents = list(AGENTS)
        seen = {
            "first_round": 1.0,
            "own_cooperated": 0.0,
            "others_cooperated": 0.5,
            "last_reward": 0.0,
            "time": 0.0,
            "cooperation_level": LEVEL,
            "difficulty": DIFFICULTY,
        }
        return {agent: dict(seen) for agent in AGENTS}, {agent: {} for agent in AGENTS}

    def step(self, actions: Mapping[str, int]) -> tuple[dict[str, Any], ...]:
        """Play one round."""
        self._played += 1
        total = sum(actions.values())
        observations, rewards, infos = {}, {}, {}
        for agent, action in actions.items():
            others = total - action  # there is but one other
            pays = LEVEL * others if action else (1.0 - LEVEL) * (1.0 - others)
            noise = NOISE * self._generator.standard_normal()
            reward = max(0.0, 1.0 - DIFFICULTY + WEIGHT * pays + noise)
            observations[agent] = {
                "first_round": 0.0,
                "own_cooperated": float(action),
                "others_cooperated": float(others),
                "last_reward": reward,
                "time": self._played / self.rounds,
                "cooperation_level": LEVEL,
                "difficulty": DIFFICULTY,
            }
            rewards[agent] = reward
            infos[agent] = {"cooperation_ratio": total / 2}
        over = self._played >= self.rounds
        if over:
            self.agents = []
        terminations = dict.fromkeys(AGENTS, False)
        return observations, rewards, terminations, dict.fromkeys(AGENTS, over), infos
