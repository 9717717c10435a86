"""Payoffs of team_battle: each agent's reward, reference values and the selfish equilibrium.

Noise is left out. Action 1 cooperates, 0 competes. Values are per agent and round, unitless.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb, nan

from srl_envs.errors import EnvConfigError
from srl_envs.validation import MOST_PLAYERS, number_between, set_fields, whole_number

BASE_FLOOR = 0.1  # base reward at the greatest difficulty
RAID = 0.15  # a competitor's bonus when all rivals cooperate
EXPOSURE = 0.05  # a cooperator's loss as its own team's share goes to nothing


@dataclass(frozen=True)
class TeamBattleRules:
    """Rewards after the warm-up, without noise.

    Raises EnvConfigError for parameters out of range.
    """

    team_sizes: tuple[int, int] = (4, 4)
    difficulty: float = 0.3
    cooperation_weight: float = 0.25

    def __post_init__(self) -> None:
        set_fields(
            self,
            team_sizes=tuple(
                whole_number("team_size", size, 1, MOST_PLAYERS) for size in self.team_sizes
            ),
            difficulty=number_between("difficulty", self.difficulty, 0.0, 1.0),
            cooperation_weight=number_between("cooperation_weight", self.cooperation_weight, 0.0),
        )

    @property
    def base_reward(self) -> float:
        """Every agent's reward per round of the warm-up."""
        return max(BASE_FLOOR, 1.0 - self.difficulty)

    def payoff(self, action: int, own: float, rival: float) -> float:
        """An agent's reward before noise and the floor at zero.

        `own` and `rival` are the cooperating shares of its team (itself included) and the rivals.
        """
        bonus = -EXPOSURE * (1.0 - own) if action else RAID * rival
        return self.base_reward + self.cooperation_weight * (own - 0.5) + bonus

    def payoffs(self) -> list[list[tuple[tuple[float, float], tuple[float, float]]]]:
        """Before noise and floor, indexed `[red cooperators][blue cooperators][team][action]`.

        nan where nobody of that team chose that action.
        """
        red, blue = self.team_sizes
        return [
            [(self._team(a, red, b / blue), self._team(b, blue, a / red)) for b in range(blue + 1)]
            for a in range(red + 1)
        ]

    def _team(self, cooperators: int, size: int, rival: float) -> tuple[float, float]:
        own = cooperators / size
        return (
            self.payoff(0, own, rival) if cooperators < size else nan,
            self.payoff(1, own, rival) if cooperators > 0 else nan,
        )

    def expected_rewards(self, actions: Sequence[int]) -> tuple[float, ...]:
        """Each agent's reward, red agents first, when they play `actions` (1 = cooperate)."""
        red, blue = self.team_sizes
        own_red, own_blue = sum(actions[:red]) / red, sum(actions[red:]) / blue
        return tuple(
            max(
                0.0,
                self.payoff(action, own_red, own_blue)
                if agent < red
                else self.payoff(action, own_blue, own_red),
            )
            for agent, action in enumerate(actions)
        )

    def mean_reward(self, red_cooperators: int, blue_cooperators: int) -> float:
        """Mean reward per agent when this many of each team cooperate."""
        red, blue = self.team_sizes
        actions = [1] * red_cooperators + [0] * (red - red_cooperators)
        actions += [1] * blue_cooperators + [0] * (blue - blue_cooperators)
        return sum(self.expected_rewards(actions)) / (red + blue)

    def independent_value(self, probability: float) -> float:
        """Mean reward per agent when all cooperate independently with `probability`; exact."""
        red, blue = self.team_sizes
        return sum(
            _binomial(red, a, probability)
            * _binomial(blue, b, probability)
            * self.mean_reward(a, b)
            for a in range(red + 1)
            for b in range(blue + 1)
        )

    def all_cooperate(self) -> float:
        """Mean reward per agent when everybody cooperates."""
        return self.mean_reward(*self.team_sizes)

    def all_compete(self) -> float:
        """Mean reward per agent when everybody competes."""
        return self.mean_reward(0, 0)

    def uniform_value(self) -> float:
        """Mean reward per agent when all choose independently and uniformly; exact."""
        return self.independent_value(0.5)

    def optimum(self) -> float:
        """Mean reward per agent of the best joint action; exact."""
        red, blue = self.team_sizes
        return max(self.mean_reward(a, b) for a in range(red + 1) for b in range(blue + 1))

    def temptation(self, probability: float) -> float:
        """A red agent's gain from competing when all others cooperate with `probability`; exact."""
        red, blue = self.team_sizes
        return sum(
            _binomial(red - 1, a, probability)
            * _binomial(blue, b, probability)
            * (self.payoff(0, a / red, b / blue) - self.payoff(1, (a + 1) / red, b / blue))
            for a in range(red)
            for b in range(blue + 1)
        )

    def selfish_equilibrium(self) -> tuple[float, float]:
        """(probability of cooperating, mean reward per agent) from which nobody gains by leaving.

        The symmetric equilibrium of the one-round game of selfish agents; for equal teams only:
        raises EnvConfigError for others.
        """
        if self.team_sizes[0] != self.team_sizes[1]:
            raise EnvConfigError(f"the teams must be equal for this, got sizes {self.team_sizes}")
        if self.temptation(0.0) >= 0.0:
            return 0.0, self.all_compete()
        low, high = 0.0, 1.0
        if self.temptation(1.0) <= 0.0:
            return 1.0, self.all_cooperate()
        for _ in range(60):  # halvings: past the precision of a float
            middle = (low + high) / 2
            low, high = (middle, high) if self.temptation(middle) < 0.0 else (low, middle)
        return low, self.independent_value(low)


def _binomial(count: int, hits: int, probability: float) -> float:
    return comb(count, hits) * probability**hits * (1.0 - probability) ** (count - hits)
