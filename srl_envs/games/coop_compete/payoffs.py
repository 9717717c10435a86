"""Payoffs of coop_compete: each agent's reward and the game's reference values, without noise.

Action 1 cooperates, 0 competes. All values are rewards per agent and round, unitless.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb, isnan, nan

from srl_envs.errors import EnvConfigError
from srl_envs.validation import (
    LARGEST,
    MOST_PLAYERS,
    check_choice,
    number_between,
    set_fields,
    whole_number,
)

VARIANTS = ("population", "pair")
BASE_FLOOR = 0.1  # base reward at the greatest difficulty, as a share of the scale
MISMATCH_PENALTY = 0.1  # taken off when the two of a pair disagree


@dataclass(frozen=True)
class CoopCompeteRules:
    """Rewards without noise. Raises EnvConfigError for parameters out of range."""

    num_agents: int = 4
    cooperation_level: float = 0.6
    difficulty: float = 0.3
    variant: str = "population"
    base_scale: float = 1.0
    cooperation_weight: float = 0.25
    competition_weight: float = 0.25

    def __post_init__(self) -> None:
        set_fields(
            self,
            variant=check_choice("variant", self.variant, VARIANTS),
            num_agents=whole_number("num_agents", self.num_agents, 1, MOST_PLAYERS),
        )
        if self.variant == "pair" and self.num_agents != 2:
            raise EnvConfigError(f"num_agents must be 2 in the pair variant, got {self.num_agents}")
        for name, high in (
            ("cooperation_level", 1.0),
            ("difficulty", 1.0),
            ("base_scale", LARGEST),
            ("cooperation_weight", LARGEST),
            ("competition_weight", LARGEST),
        ):
            set_fields(self, **{name: number_between(name, getattr(self, name), 0.0, high)})

    def payoffs(self) -> tuple[tuple[float, float], ...]:
        """(competitor, cooperator) rewards before noise and floor, by how many agents cooperate.

        nan where nobody made that choice.
        """
        base_reward = self.base_scale * max(BASE_FLOOR, 1.0 - self.difficulty)
        together = self.cooperation_weight * self.cooperation_level
        apart = self.competition_weight * (1.0 - self.cooperation_level)
        others = self.num_agents - 1
        table = []
        for total in range(self.num_agents + 1):
            if others == 0:  # one player alone: nobody to agree with
                bonus_apart = bonus_together = 0.0
            elif self.variant == "pair" and total == 1:
                bonus_apart = bonus_together = -MISMATCH_PENALTY
            else:
                bonus_apart = apart * (1.0 - total / others)
                bonus_together = together * (total - 1) / others
            table.append(
                (
                    base_reward + bonus_apart if total <= others else nan,
                    base_reward + bonus_together if total > 0 else nan,
                )
            )
        return tuple(table)

    def expected_rewards(self, actions: Sequence[int]) -> tuple[float, ...]:
        """Each agent's reward when the agents play `actions` (1 = cooperate)."""
        row = self.payoffs()[sum(actions)]
        return tuple(max(0.0, row[action]) for action in actions)

    def greatest(self) -> float:
        """The most that one agent can earn."""
        return max(reward for row in self.payoffs() for reward in row if not isnan(reward))

    def mean_reward(self, cooperators: int) -> float:
        """Mean reward per agent when this many cooperate."""
        actions = [1] * cooperators + [0] * (self.num_agents - cooperators)
        return sum(self.expected_rewards(actions)) / self.num_agents

    def uniform_value(self) -> float:
        """Mean reward per agent when all choose independently and uniformly; exact."""
        n = self.num_agents
        return sum(comb(n, k) / (1 << n) * self.mean_reward(k) for k in range(n + 1))

    def optimum(self) -> float:
        """Mean reward per agent of the best joint action; exact."""
        return max(self.mean_reward(total) for total in range(self.num_agents + 1))
