"""Payoffs of the staged game: each agent's reward and the game's reference values.

Noise is left out. Action 1 cooperates, 0 competes. Values are per agent and round, unitless.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

from srl_envs.validation import MOST_PLAYERS, number_between, set_fields, whole_number

BASE_FLOOR = 0.1  # base reward at the greatest difficulty
ADVERSARIES = 0.25  # share of the agents, rounded down but at least one, that are adversaries
RAMP = 0.3  # how much greater, as a share, the base is once it is fully ramped up
PREY = 0.1  # an adversary's bonus for competing when all cooperate
DISGUISE = 0.05  # an adversary's loss for cooperating when all cooperate
MISFIT = 0.05  # taken off for cooperating where too few do, or competing where nearly all cooperate
FEW, MANY = 0.3, 0.7  # shares of cooperators below and above which a misfit pays


@dataclass(frozen=True)
class StagedRules:
    """Rewards of a staged game without noise; the first agents are the adversaries.

    Raises EnvConfigError for parameters out of range.
    """

    num_agents: int = 8
    difficulty: float = 0.3
    cooperation_weight: float = 0.25
    warmup_episodes: int = 0

    def __post_init__(self) -> None:
        set_fields(
            self,
            num_agents=whole_number("num_agents", self.num_agents, 1, MOST_PLAYERS),
            difficulty=number_between("difficulty", self.difficulty, 0.0, 1.0),
            cooperation_weight=number_between("cooperation_weight", self.cooperation_weight, 0.0),
            warmup_episodes=whole_number("warmup_episodes", self.warmup_episodes, low=0),
        )

    @property
    def adversaries(self) -> int:
        """The number of adversaries, which are the first agents."""
        return max(1, int(ADVERSARIES * self.num_agents))

    def ramp(self, episode: int) -> float:
        """How far the base of episode `episode`, counted from 0, is ramped up: from 0 to 1."""
        if not self.warmup_episodes:
            return 1.0
        since = episode - self.warmup_episodes
        return min(1.0, max(0.0, since / self.warmup_episodes))

    def base_reward(self, ramp: float) -> float:
        """Every agent's reward per round of a warm-up (ramp 0), and the base of the rest."""
        return max(BASE_FLOOR, 1.0 - self.difficulty) * (1.0 + RAMP * ramp)

    def payoff(self, action: int, total: int, adversary: bool, ramp: float = 1.0) -> float:
        """An agent's reward after the warm-up when `total` agents, itself included, cooperate.

        Before noise and before it is cut at zero, so it may be negative.
        """
        share = total / self.num_agents
        reward = self.base_reward(ramp) + self.cooperation_weight * (share - 0.5)
        if adversary:
            reward += -DISGUISE * share if action else PREY * share
        if share < FEW if action else share > MANY:
            reward -= MISFIT
        return reward

    def payoffs(self, ramp: float) -> list[tuple[tuple[float, float], tuple[float, float]]]:
        """Payoffs indexed `[cooperators][1 for an adversary, else 0][action]`; see `payoff`.

        Choices that cannot be, such as competing where all cooperate, stand there all the same.
        """

        def pair(total: int, adversary: bool) -> tuple[float, float]:
            return self.payoff(0, total, adversary, ramp), self.payoff(1, total, adversary, ramp)

        return [(pair(total, False), pair(total, True)) for total in range(self.num_agents + 1)]

    def expected_rewards(self, actions: Sequence[int]) -> tuple[float, ...]:
        """Each agent's reward, fully ramped up, when they play `actions` (1 = cooperate)."""
        total, bad = sum(actions), self.adversaries
        return tuple(
            max(0.0, self.payoff(action, total, agent < bad))
            for agent, action in enumerate(actions)
        )

    def mean_reward(self, adversaries: int, others: int) -> float:
        """Mean reward per agent when this many of each kind cooperate."""
        bad, good = self.adversaries, self.num_agents - self.adversaries
        actions = [1] * adversaries + [0] * (bad - adversaries)
        actions += [1] * others + [0] * (good - others)
        return sum(self.expected_rewards(actions)) / self.num_agents

    def uniform_value(self) -> float:
        """Mean reward per agent when all choose independently and uniformly; exact."""
        bad, good = self.adversaries, self.num_agents - self.adversaries
        return sum(
            _binomial(bad, a, 0.5) * _binomial(good, b, 0.5) * self.mean_reward(a, b)
            for a in range(bad + 1)
            for b in range(good + 1)
        )

    def optimum(self) -> float:
        """Mean reward per agent of the best joint action; exact."""
        bad, good = self.adversaries, self.num_agents - self.adversaries
        return max(self.mean_reward(a, b) for a in range(bad + 1) for b in range(good + 1))


def _binomial(count: int, hits: int, probability: float) -> float:
    return comb(count, hits) * probability**hits * (1.0 - probability) ** (count - hits)
