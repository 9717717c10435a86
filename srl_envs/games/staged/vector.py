"""The staged game, on arrays: the rules of srl_envs.games.staged.env."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from srl_envs.games.staged.env import OBSERVATION_FIELDS, Staged
from srl_envs.validation import whole_number
from srl_envs.vector.array_env import ArrayGame, counted
from srl_envs.vector.vector_env import give_seats

FIRST, OWN, ALL, REWARD, TIME, WARMUP, RAMP, _, _ = range(len(OBSERVATION_FIELDS))


class VectorStaged(ArrayGame):
    """The game of the single environment. Each environment counts its own episodes.

    `reset(options={"episode": k})` sets the count of every environment that it resets.
    """

    def __init__(self, game: Staged, num_envs: int, autoreset_mode: AutoresetMode | str) -> None:
        super().__init__(game, num_envs, autoreset_mode)
        rules = game.rules
        self._warmup_episodes = rules.warmup_episodes
        self._base = rules.base_reward(0.0)
        # One table for each episode of the ramp, the last for all that follow.
        stages = range(self._warmup_episodes, self._warmup_episodes + max(1, rules.warmup_episodes))
        self._ramps = np.array([rules.ramp(k) for k in (*stages, stages[-1] + 1)])
        tables = np.array([rules.payoffs(ramp) for ramp in self._ramps.tolist()])
        self._payoffs = tables.ravel()  # by stage, cooperators, kind of seat, action
        self._per_stage = tables[0].size
        self._adversaries = np.arange(rules.adversaries)
        self._first = np.array(game.first_rows({"episode": 0}), np.float32)
        self._episode = np.full(self.num_envs, -1)
        self._stage = np.zeros(self.num_envs, np.int64)
        self._warmup = np.zeros(self.num_envs, bool)
        self._some_warm = False
        self._shares = np.zeros(self.num_envs)
        self._lookup = np.zeros(self._shape, np.int64)

    def begin(self, who: np.ndarray, options: Mapping[str, Any]) -> None:
        """Count the episodes, and write the first observations."""
        episode: Any = self._episode[who] + 1
        if "episode" in options:
            episode = whole_number('options["episode"]', options["episode"], low=0)
        self._episode[who] = episode
        since = self._episode[who] - self._warmup_episodes
        self._warmup[who] = since < 0
        self._some_warm = bool(self._warmup.any())
        self._stage[who] = since.clip(0, len(self._ramps) - 1)
        ramps = np.where(since < 0, 0.0, self._ramps.take(self._stage[who]))
        self._observations[who] = self._first
        self._observations[who, :, WARMUP] = self._warmup[who, None]
        self._observations[who, :, RAMP] = ramps[:, None]

    def play_round(
        self, chosen: np.ndarray, over: np.ndarray | None, resting: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """One round."""
        total = counted(chosen)
        give_seats(self._lookup, self._per_stage * self._stage + 4 * total)
        self._lookup[:, : len(self._adversaries)] += 2
        self._lookup += chosen
        rewards = self._payoffs.take(self._lookup)
        idle = resting
        if self._some_warm:
            idle = self._warmup if resting is None else self._warmup | resting
        rewards += self.noise(idle)
        np.maximum(rewards, 0.0, out=rewards)
        if self._some_warm:
            rewards[self._warmup] = self._base
        self._shares = total / self.num_agents
        seen = self._observations
        seen[..., FIRST] = 0.0
        seen[..., OWN] = chosen
        give_seats(seen[..., ALL], self._shares)
        seen[..., REWARD] = rewards
        self.show_time(seen[..., TIME])
        return rewards, None

    def of_the_round(self) -> dict[str, Any]:
        """Who cooperated, the phase, and the numbers of the adversaries, (N, A, adversaries)."""
        phases = np.full(self._shape, "divergence", object)
        if self._some_warm:
            phases[self._warmup] = "warmup"
        return {
            "cooperation_ratio": self.all_seats(self._shares),
            "phase": phases,
            "adversaries": np.tile(self._adversaries, (*self._shape, 1)),
        }
