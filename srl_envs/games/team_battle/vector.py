"""The battle of two teams, on arrays: the rules of srl_envs.games.team_battle.env."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from srl_envs.games.team_battle.env import DRAW, OBSERVATION_FIELDS, TEAM_A, TEAM_B, TeamBattle
from srl_envs.validation import whole_number
from srl_envs.vector.array_env import ArrayGame, counted
from srl_envs.vector.vector_env import give_seats

FIRST, OWN, TEAM, RIVALS, REWARD, TIME, WARMUP, _, _ = range(len(OBSERVATION_FIELDS))
WINNERS = np.array([TEAM_B, "draw", TEAM_A], object)


class VectorTeamBattle(ArrayGame):
    """The game of the single environment. Each environment counts its own episodes.

    `reset(options={"episode": k})` sets the count of every environment that it resets.
    """

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
        self._episode = np.full(self.num_envs, -1)
        self._warmup = np.zeros(self.num_envs, bool)
        self._some_warm = False
        self._lead = np.zeros(self.num_envs)  # red over blue: sum of mean rewards per member
        self._over: np.ndarray | None = None
        self._lookup = np.zeros(self._shape, np.int64)
        self._totals = (np.zeros(self.num_envs, np.int64),) * 2

    def begin(self, who: np.ndarray, options: Mapping[str, Any]) -> None:
        """Count the episodes, and write the first observations."""
        episode: Any = self._episode[who] + 1
        if "episode" in options:
            episode = whole_number('options["episode"]', options["episode"], low=0)
        self._episode[who] = episode
        self._warmup[who] = self._episode[who] < self._warmup_episodes
        self._some_warm = bool(self._warmup.any())
        self._lead[who] = 0.0
        self._observations[who] = self._first
        self._observations[who, :, WARMUP] = self._warmup[who, None]

    def play_round(
        self, chosen: np.ndarray, over: np.ndarray | None, resting: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """One round."""
        red = self._red
        of_red, of_blue = self._totals = counted(chosen[:, :red]), counted(chosen[:, red:])
        both = (self._blue + 1) * of_red + of_blue
        give_seats(self._lookup, 4 * both)
        self._lookup[:, red:] += 2
        self._lookup += chosen
        rewards = self._payoffs.take(self._lookup)
        idle = resting
        if self._some_warm:
            idle = self._warmup if resting is None else self._warmup | resting
        rewards += self.noise(idle)
        np.maximum(rewards, 0.0, out=rewards)
        if self._some_warm:
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
            give_seats(side[..., TEAM], own)
            give_seats(side[..., RIVALS], rival)
        seen[..., REWARD] = rewards
        self.show_time(seen[..., TIME])
        return rewards, None

    def of_the_round(self) -> dict[str, Any]:
        """Who cooperated, the phase and, in the last round, the winner."""
        of_red, of_blue = self._totals
        phases = np.full(self._shape, "battle", object)
        if self._some_warm:
            phases[self._warmup] = "warmup"
        infos: dict[str, Any] = {
            "cooperation_ratio": self.all_seats((of_red + of_blue) / self.num_agents),
            "team_cooperation": {
                TEAM_A: self.all_seats(of_red / self._red),
                TEAM_B: self.all_seats(of_blue / self._blue),
            },
            "phase": phases,
        }
        if self._over is not None and self._over.any():
            lead = np.where(self._warmup, 0.0, self._lead / self.rounds)
            sign = np.where(np.abs(lead) <= DRAW, 0, np.sign(lead)).astype(np.int64)
            winners = self.all_seats(WINNERS.take(sign + 1))
            winners[~self._over] = None
            infos["winner"] = winners, self._over
        return infos


def _mean_of_team(payoffs: np.ndarray, red: int, blue: int) -> np.ndarray:
    """Red's mean reward per member less blue's, noise left out, by cooperators of both (flat)."""
    earned = np.nan_to_num(payoffs)  # nan where nobody chose that: it counts zero times
    cooperate_red, cooperate_blue = np.arange(red + 1)[:, None], np.arange(blue + 1)
    of_red = earned[..., 0, 0] * (red - cooperate_red) + earned[..., 0, 1] * cooperate_red
    of_blue = earned[..., 1, 0] * (blue - cooperate_blue) + earned[..., 1, 1] * cooperate_blue
    lead: np.ndarray = (of_red / red - of_blue / blue).ravel()
    return lead
