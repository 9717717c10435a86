"""Exact mean rewards of one-round games in which every agent cooperates or competes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import comb, prod


class ChoiceRules:
    """Base class of payoff rules of one round, in which all agents of a group are alike."""

    @property
    def group_sizes(self) -> tuple[int, ...]:
        """Number of agents of each group of agents that are alike, in agent order."""
        raise NotImplementedError

    def expected_rewards(self, actions: Sequence[int]) -> tuple[float, ...]:
        """Return each agent's reward, without noise, for the joint `actions` (1 = cooperate)."""
        raise NotImplementedError

    def mean_reward(self, *cooperators: int) -> float:
        """Return the mean reward per agent; each argument is a group's number of cooperators."""
        actions: list[int] = []
        for size, count in zip(self.group_sizes, cooperators, strict=True):
            actions += [1] * count + [0] * (size - count)
        return sum(self.expected_rewards(actions)) / len(actions)

    def independent_value(self, probability: float) -> float:
        """Return the mean reward per agent if each cooperates independently with `probability`."""
        sizes = self.group_sizes
        return sum(
            prod(binomial(*pair, probability) for pair in zip(sizes, counts, strict=True))
            * self.mean_reward(*counts)
            for counts in self._all_counts()
        )

    def uniform_value(self) -> float:
        """Return the mean reward per agent if each chooses independently and uniformly."""
        return self.independent_value(0.5)

    def optimum(self) -> float:
        """Return the mean reward per agent of the best joint action."""
        return max(self.mean_reward(*counts) for counts in self._all_counts())

    def _all_counts(self) -> product[tuple[int, ...]]:
        """Return an iterator over all tuples of numbers of cooperators, one per group."""
        return product(*(range(size + 1) for size in self.group_sizes))


def binomial(count: int, hits: int, probability: float) -> float:
    """Return the probability of `hits` successes in `count` trials, each with `probability`."""
    if probability == 0.5:
        return comb(count, hits) / (1 << count)  # exact, even if 0.5**count is 0.0
    return comb(count, hits) * probability**hits * (1.0 - probability) ** (count - hits)
