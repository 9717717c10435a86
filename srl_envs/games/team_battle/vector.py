"""Team battle on arrays, by the rules of srl_envs.games.team_battle.env."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from srl_envs.games.team_battle.env import DRAW, OBSERVATION_FIELDS, TEAM_A, TEAM_B, TeamBattle
from srl_envs.validation import whole_number
from srl_envs.vector.array_env import ArrayGame, Played
from srl_envs.vector.vector_env import broadcast_to_agents, sum_over_agents

FIRST, OWN, TEAM, RIVALS, REWARD, TIME, WARMUP, _, _ = range(len(OBSERVATION_FIELDS))
WINNERS = np.array([TEAM_B, "draw", TEAM_A], object)


class VectorTeamBattle(ArrayGame):
    """The game of the single environment. Each environment counts its own episodes."""

    def __init__(
        self, game: TeamBattle, num_envs: int, autoreset_mode: AutoresetMode | str
    ) -> None:
        super().__init__(game, num_envs, autoreset_mode)
        self._red, self._blue = game.rules.team_sizes
        self._base = game.rules.base_reward
        self._warmup_episodes = game.warmup_episodes
        # By (red cooperators, blue cooperators), then team and action.
        payoffs = np.array(game.rules.payoffs())
        self._payoffs = payoffs.ravel()
        self._scores = _mean_of_team(payoffs, self._red, self._blue)
        self._first = np.array(game.first_rows({"episode": game.warmup_episodes}), np.float32)
        self._warmup = np.zeros(self.num_envs, bool)
        self._lead = np.zeros(self.num_envs)  # red over blue: sum of mean rewards per member
        self._over = np.zeros(self.num_envs, bool)
        self._totals = (np.zeros(self.num_envs, np.int64),) * 2

    def begin(self, env_ids: np.ndarray, options: Mapping[str, Any]) -> None:
        """Write the first observations; the option "episode" sets the number of the episodes."""
        if "episode" in options:
            number = whole_number('options["episode"]', options["episode"], low=0)
            self._episode[env_ids] = number
        self._warmup[env_ids] = self._episode[env_ids] < self._warmup_episodes
        self._lead[env_ids] = 0.0
        super().begin(env_ids, options)
        self._observations[env_ids, :, WARMUP] = self._warmup[env_ids, None]

    def play_round(self, chosen: np.ndarray, over: np.ndarray, resting: np.ndarray) -> Played:
        """One round."""
        red = self._red
        of_red, of_blue = sum_over_agents(chosen[:, :red]), sum_over_agents(chosen[:, red:])
        self._totals = of_red, of_blue
        both = (self._blue + 1) * of_red + of_blue
        case = self.per_agent(4 * both)
        case += chosen
        case[:, red:] += 2
        rewards = self._payoffs.take(case)
        rewards += self.noise(self._warmup | resting)
        np.maximum(rewards, 0.0, out=rewards)
        rewards[self._warmup] = self._base
        self._lead += self._scores.take(both)
        self._over = over
        seen = self._observations
        seen[..., FIRST] = 0.0
        seen[..., OWN] = chosen
        share_red, share_blue = of_red / red, of_blue / self._blue
        for side, own, rival in (
            (seen[:, :red], share_red, share_blue),
            (seen[:, red:], share_blue, share_red),
        ):
            broadcast_to_agents(side[..., TEAM], own)
            broadcast_to_agents(side[..., RIVALS], rival)
        seen[..., REWARD] = rewards
        self.show_time(seen[..., TIME])
        return rewards, None

    def round_infos(self) -> dict[str, Any]:
        """Who cooperated, the phase and, in the last round, the winner."""
        of_red, of_blue = self._totals
        phases = np.full(self._shape, "battle", object)
        phases[self._warmup] = "warmup"
        infos: dict[str, Any] = {
            "cooperation_ratio": self.per_agent((of_red + of_blue) / self.num_agents),
            "team_cooperation": {
                TEAM_A: self.per_agent(of_red / self._red),
                TEAM_B: self.per_agent(of_blue / self._blue),
            },
            "phase": phases,
        }
        if self._over.any():
            lead = np.where(self._warmup, 0.0, self._lead / self.rounds)
            sign = np.where(np.abs(lead) <= DRAW, 0, np.sign(lead)).astype(np.int64)
            winners = WINNERS.take(sign + 1)
            winners[~self._over] = None
            infos["winner"] = self.per_agent(winners), self._over
        return infos


def _mean_of_team(payoffs: np.ndarray, red: int, blue: int) -> np.ndarray:
    """Red's mean reward per member less blue's, noise left out, by cooperators of both (flat)."""
    earned = np.nan_to_num(payoffs)  # nan where nobody chose that: it counts zero times
    cooperate_red, cooperate_blue = np.arange(red + 1)[:, None], np.arange(blue + 1)
    of_red = earned[..., 0, 0] * (red - cooperate_red) + earned[..., 0, 1] * cooperate_red
    of_blue = earned[..., 1, 0] * (blue - cooperate_blue) + earned[..., 1, 1] * cooperate_blue
    lead: np.ndarray = (of_red / red - of_blue / blue).ravel()
    return lead
