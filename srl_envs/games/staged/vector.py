"""The staged game on arrays, by the rules of srl_envs.games.staged.env."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from srl_envs.games.staged.env import OBSERVATION_FIELDS, Staged
from srl_envs.validation import whole_number
from srl_envs.vector.array_env import ArrayGame, Played
from srl_envs.vector.vector_env import broadcast_to_agents, sum_over_agents

FIRST, OWN, ALL, REWARD, TIME, WARMUP, RAMP, _, _ = range(len(OBSERVATION_FIELDS))


class VectorStaged(ArrayGame):
    """The game of the single environment. Each environment counts its own episodes."""

    def __init__(self, game: Staged, num_envs: int, autoreset_mode: AutoresetMode | str) -> None:
        super().__init__(game, num_envs, autoreset_mode)
        rules = game.rules
        self._warmup_episodes = rules.warmup_episodes
        self._base = rules.base_reward(0.0)
        # One table for each episode of the ramp, the last for all that follow.
        stages = range(self._warmup_episodes, self._warmup_episodes + max(1, rules.warmup_episodes))
        self._ramps = np.array([rules.ramp(k) for k in (*stages, stages[-1] + 1)])
        tables = np.array([rules.payoffs(ramp) for ramp in self._ramps.tolist()])
        self._payoffs = tables.ravel()  # by stage, cooperators, kind of agent, action
        self._per_stage = tables[0].size
        self._adversaries = np.arange(rules.adversaries)
        self._first = np.array(game.first_rows({"episode": 0}), np.float32)
        self._stage = np.zeros(self.num_envs, np.int64)
        self._warmup = np.zeros(self.num_envs, bool)
        self._shares = np.zeros(self.num_envs)

    def begin(self, env_ids: np.ndarray, options: Mapping[str, Any]) -> None:
        """Write the first observations; the option "episode" sets the number of the episodes."""
        if "episode" in options:
            number = whole_number('options["episode"]', options["episode"], low=0)
            self._episode[env_ids] = number
        since = self._episode[env_ids] - self._warmup_episodes
        self._warmup[env_ids] = since < 0
        self._stage[env_ids] = since.clip(0, len(self._ramps) - 1)
        ramps = np.where(since < 0, 0.0, self._ramps.take(self._stage[env_ids]))
        super().begin(env_ids, options)
        self._observations[env_ids, :, WARMUP] = self._warmup[env_ids, None]
        self._observations[env_ids, :, RAMP] = ramps[:, None]

    def play_round(self, chosen: np.ndarray, over: np.ndarray, resting: np.ndarray) -> Played:
        """One round."""
        total = sum_over_agents(chosen)
        case = self.per_agent(self._per_stage * self._stage + 4 * total)
        case += chosen
        case[:, : len(self._adversaries)] += 2
        rewards = self._payoffs.take(case)
        rewards += self.noise(self._warmup | resting)
        np.maximum(rewards, 0.0, out=rewards)
        rewards[self._warmup] = self._base
        self._shares = total / self.num_agents
        seen = self._observations
        seen[..., FIRST] = 0.0
        seen[..., OWN] = chosen
        broadcast_to_agents(seen[..., ALL], self._shares)
        seen[..., REWARD] = rewards
        self.show_time(seen[..., TIME])
        return rewards, None

    def round_infos(self) -> dict[str, Any]:
        """Who cooperated, the phase, and the numbers of the adversaries, (N, A, adversaries)."""
        phases = np.full(self._shape, "divergence", object)
        phases[self._warmup] = "warmup"
        return {
            "cooperation_ratio": self.per_agent(self._shares),
            "phase": phases,
            "adversaries": np.tile(self._adversaries, (*self._shape, 1)),
        }
