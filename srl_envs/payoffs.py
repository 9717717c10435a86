"""Who earns what in the games of cooperating and competing: exact arithmetic, noise left out.

Environments look their rewards up here, and reports take their reference values from here. Action 1
cooperates, 0 competes. All values are rewards per seat and round, unitless.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb, isnan, nan

from srl_envs.checks import LARGEST, keep, number_between, one_of, whole_number
from srl_envs.errors import EnvConfigError

VARIANTS = ("population", "pair")
BASE_FLOOR = 0.1  # base reward at the greatest difficulty, as a share of the scale
MISMATCH_PENALTY = 0.1  # taken off when the two of a pair disagree
RAID = 0.15  # a competitor's bonus in a team battle when all rivals cooperate
EXPOSURE = 0.05  # a cooperator's loss in a team battle as its own team's share goes to nothing
ADVERSARIES = 0.25  # share of the seats, rounded down but at least one seat, that are adversaries
RAMP = 0.3  # how much greater, as a share, the base of a staged game is once it is fully ramped up
PREY = 0.1  # an adversary's bonus for competing when all cooperate
DISGUISE = 0.05  # an adversary's loss for cooperating when all cooperate
MISFIT = 0.05  # taken off for cooperating where too few do, or competing where nearly all cooperate
FEW, MANY = 0.3, 0.7  # shares of cooperators below and above which a misfit pays


@dataclass(frozen=True)
class CoopCompeteRules:
    """Who earns what, noise left out. Raises EnvConfigError for parameters out of range."""

    num_agents: int = 4
    cooperation_level: float = 0.6
    difficulty: float = 0.3
    variant: str = "population"
    base_scale: float = 1.0
    cooperation_weight: float = 0.25
    competition_weight: float = 0.25

    def __post_init__(self) -> None:
        keep(
            self,
            variant=one_of("variant", self.variant, VARIANTS),
            num_agents=whole_number("num_agents", self.num_agents, low=1),
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
            keep(self, **{name: number_between(name, getattr(self, name), 0.0, high)})

    def payoffs(self) -> tuple[tuple[float, float], ...]:
        """(competitor, cooperator) rewards before noise and floor, by how many seats cooperate.

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
        """Each seat's reward when the seats play `actions` (1 = cooperate)."""
        row = self.payoffs()[sum(actions)]
        return tuple(max(0.0, row[action]) for action in actions)

    def greatest(self) -> float:
        """The most that one seat can earn."""
        return max(reward for row in self.payoffs() for reward in row if not isnan(reward))

    def mean_reward(self, cooperators: int) -> float:
        """Mean reward per seat when this many cooperate."""
        actions = [1] * cooperators + [0] * (self.num_agents - cooperators)
        return sum(self.expected_rewards(actions)) / self.num_agents

    def uniform_value(self) -> float:
        """Mean reward per seat when all choose independently and uniformly; exact."""
        n = self.num_agents
        return sum(comb(n, k) / (1 << n) * self.mean_reward(k) for k in range(n + 1))

    def optimum(self) -> float:
        """Mean reward per seat of the best joint action; exact."""
        return max(self.mean_reward(total) for total in range(self.num_agents + 1))


@dataclass(frozen=True)
class TeamBattleRules:
    """Who earns what after the warm-up, noise left out.

    Raises EnvConfigError for parameters out of range.
    """

    team_sizes: tuple[int, int] = (4, 4)
    difficulty: float = 0.3
    cooperation_weight: float = 0.25

    def __post_init__(self) -> None:
        keep(
            self,
            team_sizes=tuple(whole_number("team_size", size, low=1) for size in self.team_sizes),
            difficulty=number_between("difficulty", self.difficulty, 0.0, 1.0),
            cooperation_weight=number_between("cooperation_weight", self.cooperation_weight, 0.0),
        )

    @property
    def base_reward(self) -> float:
        """What every seat earns per round of the warm-up."""
        return max(BASE_FLOOR, 1.0 - self.difficulty)

    def payoff(self, action: int, own: float, rival: float) -> float:
        """A seat's reward before noise and the floor at zero.

        `own` and `rival` are the cooperating shares of its team (itself included) and the rivals.
        """
        bonus = -EXPOSURE * (1.0 - own) if action else RAID * rival
        return self.base_reward + self.cooperation_weight * (own - 0.5) + bonus

    def payoffs(self) -> list[list[tuple[tuple[float, float], tuple[float, float]]]]:
        """Before noise and floor, indexed [red cooperators][blue cooperators][team][action].

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
        """Each seat's reward, red seats first, when they play `actions` (1 = cooperate)."""
        red, blue = self.team_sizes
        own_red, own_blue = sum(actions[:red]) / red, sum(actions[red:]) / blue
        return tuple(
            max(
                0.0,
                self.payoff(action, own_red, own_blue)
                if seat < red
                else self.payoff(action, own_blue, own_red),
            )
            for seat, action in enumerate(actions)
        )

    def mean_reward(self, red_cooperators: int, blue_cooperators: int) -> float:
        """Mean reward per seat when this many of each team cooperate."""
        red, blue = self.team_sizes
        actions = [1] * red_cooperators + [0] * (red - red_cooperators)
        actions += [1] * blue_cooperators + [0] * (blue - blue_cooperators)
        return sum(self.expected_rewards(actions)) / (red + blue)

    def independent_value(self, probability: float) -> float:
        """Mean reward per seat when all cooperate independently with `probability`; exact."""
        red, blue = self.team_sizes
        return sum(
            _binomial(red, a, probability)
            * _binomial(blue, b, probability)
            * self.mean_reward(a, b)
            for a in range(red + 1)
            for b in range(blue + 1)
        )

    def all_cooperate(self) -> float:
        """Mean reward per seat when everybody cooperates."""
        return self.mean_reward(*self.team_sizes)

    def all_compete(self) -> float:
        """Mean reward per seat when everybody competes."""
        return self.mean_reward(0, 0)

    def uniform_value(self) -> float:
        """Mean reward per seat when all choose independently and uniformly; exact."""
        return self.independent_value(0.5)

    def optimum(self) -> float:
        """Mean reward per seat of the best joint action; exact."""
        red, blue = self.team_sizes
        return max(self.mean_reward(a, b) for a in range(red + 1) for b in range(blue + 1))

    def temptation(self, probability: float) -> float:
        """What competing gains a red seat when all others cooperate with `probability`; exact."""
        red, blue = self.team_sizes
        return sum(
            _binomial(red - 1, a, probability)
            * _binomial(blue, b, probability)
            * (self.payoff(0, a / red, b / blue) - self.payoff(1, (a + 1) / red, b / blue))
            for a in range(red)
            for b in range(blue + 1)
        )

    def selfish_equilibrium(self) -> tuple[float, float]:
        """(probability of cooperating, mean reward per seat) from which nobody gains by leaving.

        The symmetric equilibrium of the one-round game of selfish seats; for equal teams only:
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


@dataclass(frozen=True)
class StagedRules:
    """Who earns what in a staged game, noise left out; the first seats are the adversaries.

    Raises EnvConfigError for parameters out of range.
    """

    num_agents: int = 8
    difficulty: float = 0.3
    cooperation_weight: float = 0.25
    warmup_episodes: int = 20

    def __post_init__(self) -> None:
        keep(
            self,
            num_agents=whole_number("num_agents", self.num_agents, low=1),
            difficulty=number_between("difficulty", self.difficulty, 0.0, 1.0),
            cooperation_weight=number_between("cooperation_weight", self.cooperation_weight, 0.0),
            warmup_episodes=whole_number("warmup_episodes", self.warmup_episodes, low=0),
        )

    @property
    def adversaries(self) -> int:
        """How many seats, the first ones, are adversaries."""
        return max(1, int(ADVERSARIES * self.num_agents))

    def ramp(self, episode: int) -> float:
        """How far the base of episode `episode`, counted from 0, is ramped up: from 0 to 1."""
        since = episode - self.warmup_episodes
        return min(1.0, max(0.0, since / max(1, self.warmup_episodes)))

    def base_reward(self, ramp: float) -> float:
        """What every seat earns per round of a warm-up (ramp 0), and the base of the rest."""
        return max(BASE_FLOOR, 1.0 - self.difficulty) * (1.0 + RAMP * ramp)

    def payoff(self, action: int, total: int, adversary: bool, ramp: float = 1.0) -> float:
        """A seat's reward after the warm-up when `total` seats, itself included, cooperate.

        Before noise and before it is cut at zero, so it may be negative.
        """
        share = total / self.num_agents
        reward = self.base_reward(ramp) + self.cooperation_weight * (share - 0.5)
        if adversary:
            reward += -DISGUISE * share if action else PREY * share
        if share < FEW if action else share > MANY:
            reward -= MISFIT
        return reward

    def payoffs(self, ramp: float = 1.0) -> list[tuple[tuple[float, float], tuple[float, float]]]:
        """Payoffs indexed [cooperators][1 for an adversary, else 0][action]; see `payoff`.

        Choices that cannot be, such as competing where all cooperate, stand there all the same.
        """

        def pair(total: int, adversary: bool) -> tuple[float, float]:
            return self.payoff(0, total, adversary, ramp), self.payoff(1, total, adversary, ramp)

        return [(pair(total, False), pair(total, True)) for total in range(self.num_agents + 1)]

    def expected_rewards(self, actions: Sequence[int], ramp: float = 1.0) -> tuple[float, ...]:
        """Each seat's reward when the seats play `actions` (1 = cooperate)."""
        total, bad = sum(actions), self.adversaries
        return tuple(
            max(0.0, self.payoff(action, total, seat < bad, ramp))
            for seat, action in enumerate(actions)
        )

    def mean_reward(self, adversaries: int, others: int, ramp: float = 1.0) -> float:
        """Mean reward per seat when this many of each kind cooperate."""
        bad, good = self.adversaries, self.num_agents - self.adversaries
        actions = [1] * adversaries + [0] * (bad - adversaries)
        actions += [1] * others + [0] * (good - others)
        return sum(self.expected_rewards(actions, ramp)) / self.num_agents

    def uniform_value(self, ramp: float = 1.0) -> float:
        """Mean reward per seat when all choose independently and uniformly; exact."""
        bad, good = self.adversaries, self.num_agents - self.adversaries
        return sum(
            _binomial(bad, a, 0.5) * _binomial(good, b, 0.5) * self.mean_reward(a, b, ramp)
            for a in range(bad + 1)
            for b in range(good + 1)
        )

    def optimum(self, ramp: float = 1.0) -> float:
        """Mean reward per seat of the best joint action; exact."""
        bad, good = self.adversaries, self.num_agents - self.adversaries
        return max(self.mean_reward(a, b, ramp) for a in range(bad + 1) for b in range(good + 1))


def _binomial(count: int, hits: int, probability: float) -> float:
    return comb(count, hits) * probability**hits * (1.0 - probability) ** (count - hits)
