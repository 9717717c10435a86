"""Games in which every agent cooperates or competes, and their exact mean rewards."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import comb, prod

from srl_envs.games.turnover import TurnoverGame


class ChoiceRules:
    """Base class of payoff rules of one round. Agents of the same group are interchangeable."""

    @property
    def group_sizes(self) -> tuple[int, ...]:
        """Number of agents in each group of interchangeable agents, in agent order."""
        raise NotImplementedError

    def expected_rewards(self, actions: Sequence[int]) -> tuple[float, ...]:
        """Return rewards (at least 0, no noise) for `actions` (1 = cooperate), in agent order."""
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

    def constants(self) -> list[float]:
        """Return the mean reward per agent for each tuple of one action per group.

        The order is that of itertools.product: (0, 0), (0, 1), (1, 0), (1, 1) for two groups.
        """
        sizes = self.group_sizes
        return [
            self.mean_reward(*(size * action for size, action in zip(sizes, actions, strict=True)))
            for actions in product((0, 1), repeat=len(sizes))
        ]

    def explore_then_commit_value(self, rounds: int) -> float:
        """Return the mean reward per agent and round of "explore_then_commit", without noise.

        All agents cooperate in the first of `rounds` rounds and compete in the second. Each then
        repeats the action that paid it more, or cooperates if both paid the same.
        """
        agents = sum(self.group_sizes)
        together = self.expected_rewards([1] * agents)
        apart = self.expected_rewards([0] * agents)
        best = [int(one >= other) for one, other in zip(together, apart, strict=True)]
        total = sum(together)
        if rounds > 1:
            total += sum(apart) + (rounds - 2) * sum(self.expected_rewards(best))
        return total / rounds / agents

    def _all_counts(self) -> product[tuple[int, ...]]:
        return product(*(range(size + 1) for size in self.group_sizes))


class ChoiceGame(TurnoverGame):
    """Base class of games in which every agent competes (action 0) or cooperates (action 1)."""

    rules: ChoiceRules

    def baselines(self) -> dict[str, float]:
        return {
            "uniform": self.rules.uniform_value(),
            "constant": max(self.constants()),
            **({} if self.turnover else {"scripted": self.scripted_value()}),
            "optimum": self.rules.optimum(),
        }

    def constants(self) -> list[float]:
        return self.rules.constants()

    def scripted_value(self) -> float:
        return self.rules.explore_then_commit_value(self.max_cycles)


def binomial(count: int, hits: int, probability: float) -> float:
    """Return the probability of `hits` successes in `count` trials, each with `probability`."""
    if probability == 0.5:
        return comb(count, hits) / (1 << count)  # exact, even if 0.5**count is 0.0
    return comb(count, hits) * probability**hits * (1.0 - probability) ** (count - hits)
