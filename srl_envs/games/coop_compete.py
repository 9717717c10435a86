"""Cooperate or compete: a coordination game of simultaneous choices for n agents.

A symmetric coordination game of n agents, played for `max_cycles` rounds. Two variants:

- "population": a cooperator earns base + cooperation_weight * L * r, a competitor
  base + competition_weight * (1 - L) * (1 - r), where L is the cooperation level and r the share
  of the *other* agents that cooperate.
- "pair": the two-player benchmark game; the same when both agree, and base - 0.1 each when not.

base = base_scale * max(0.1, 1 - difficulty). Rewards are base and bonus plus normal noise, never
below zero. All numbers are per agent and round, unitless.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan, nan
from typing import Any, ClassVar

from srl_envs.errors import EnvConfigError
from srl_envs.games import base
from srl_envs.games.choices import ChoiceRules
from srl_envs.text import BINARY_ANSWERS, HOW_TO_ANSWER, FixedChoices, round_of
from srl_envs.validation import (
    LARGEST,
    MOST_PLAYERS,
    check_choice,
    number_between,
    parallel_form,
    set_fields,
    true_or_false,
    whole_number,
)

VARIANTS = ("population", "pair")
BASE_FLOOR = 0.1  # base reward at the greatest difficulty, as a share of the scale
MISMATCH_PENALTY = 0.1  # taken off when the two of a pair disagree


@dataclass(frozen=True)
class CoopCompeteRules(ChoiceRules):
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

    @property
    def group_sizes(self) -> tuple[int, ...]:
        return (self.num_agents,)

    def payoffs(self) -> tuple[tuple[float, float], ...]:
        """(competitor, cooperator) rewards before noise and floor, by how many agents cooperate.

        nan if no agent made that choice.
        """
        base_reward = self.base_scale * max(BASE_FLOOR, 1.0 - self.difficulty)
        together = self.cooperation_weight * self.cooperation_level
        apart = self.competition_weight * (1.0 - self.cooperation_level)
        others = self.num_agents - 1
        table = []
        for total in range(self.num_agents + 1):
            if others == 0:  # a single player has no bonus
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
        row = self.payoffs()[sum(actions)]
        return tuple(max(0.0, row[action]) for action in actions)

    def greatest(self) -> float:
        """Return the greatest reward of one agent, without noise."""
        return max(reward for row in self.payoffs() for reward in row if not isnan(reward))


OBSERVATION_FIELDS = (
    "first_round",  # 1 before anyone has chosen, else 0
    "own_cooperated",  # 1 if this agent cooperated last round, else 0
    "others_cooperated",  # share of the other agents that cooperated last round; 0.5 before
    "last_reward",
    "time",  # rounds played / max_cycles
    "cooperation_level",  # L, or -1 where observe_parameters is off
    "difficulty",  # or -1 where observe_parameters is off
)


class CoopCompete(base.SimultaneousGame):
    """The environment.

    Agents agent_0, agent_1, ...; action 1 cooperates, 0 competes; every action is always legal.
    Observations: OBSERVATION_FIELDS, per agent. `infos[agent]["cooperation_ratio"]` is the share of
    all agents that cooperated. `num_agents` is 4 where not given, 2 in the pair variant. With
    `observe_parameters=False` the cooperation level and the difficulty stay hidden from the agents.
    """

    metadata: ClassVar[dict[str, Any]] = base.metadata_of("coop_compete_v0")

    def __init__(
        self,
        *,
        num_agents: int | None = None,
        cooperation_level: float = 0.6,
        difficulty: float = 0.3,
        variant: str = "population",
        base_scale: float = 1.0,
        noise_std: float = 0.05,
        cooperation_weight: float = 0.25,
        competition_weight: float = 0.25,
        observe_parameters: bool = True,
        max_cycles: int = 1000,
        obs_mode: str = "vector",
        render_mode: str | None = None,
    ) -> None:
        check_choice("variant", variant, VARIANTS)
        if num_agents is None:
            num_agents = 2 if variant == "pair" else 4
        self.rules = CoopCompeteRules(
            num_agents,
            cooperation_level,
            difficulty,
            variant,
            base_scale,
            cooperation_weight,
            competition_weight,
        )
        self.observe_parameters = true_or_false("observe_parameters", observe_parameters)
        self._payoffs = self.rules.payoffs()
        num_agents = self.rules.num_agents
        others = num_agents - 1
        # By number of cooperators: what a competitor and a cooperator see of the others.
        self._others_cooperated = [
            (total / others, (total - 1) / others) if others else (0.5, 0.5)
            for total in range(num_agents + 1)
        ]
        self._parameters = (
            (self.rules.cooperation_level, self.rules.difficulty)
            if self.observe_parameters
            else (base.HIDDEN, base.HIDDEN)
        )
        noise = number_between("noise_std", noise_std, 0.0)
        ceiling = self.rules.greatest() + base.NOISE_LIMIT * noise
        super().__init__(
            [f"agent_{i}" for i in range(num_agents)],
            BINARY_ANSWERS,
            low=(0.0, 0.0, 0.0, 0.0, 0.0, base.HIDDEN, base.HIDDEN),
            high=(1.0, 1.0, 1.0, ceiling, 1.0, 1.0, 1.0),
            reward_ceiling=ceiling,
            noise_std=noise,
            max_cycles=max_cycles,
            obs_mode=obs_mode,
            render_mode=render_mode,
        )

    def baselines(self) -> dict[str, float]:
        return {"uniform": self.rules.uniform_value(), "optimum": self.rules.optimum()}

    def make_view(self) -> CoopCompeteView:
        return CoopCompeteView(
            self.rules.num_agents, self.rules.variant, self.max_cycles, self.observe_parameters
        )

    def first_rows(self, options: Mapping[str, Any]) -> Sequence[base.Row]:
        return [(1.0, 0.0, 0.5, 0.0, 0.0, *self._parameters)] * len(self.possible_agents)

    def play_round(self, chosen: Sequence[int], over: bool) -> base.Played:
        total, time = sum(chosen), self.played / self.rounds
        payoffs, others_cooperated = self._payoffs[total], self._others_cooperated[total]
        level, difficulty = self._parameters
        rows, rewards = [], []
        for action, noise in zip(chosen, self.noise(len(chosen)), strict=True):
            reward = max(0.0, payoffs[action] + noise)
            rewards.append(reward)
            rows.append((0.0, action, others_cooperated[action], reward, time, level, difficulty))
        ratio = total / len(chosen)
        return rows, rewards, [{"cooperation_ratio": ratio} for _ in chosen]


@dataclass(frozen=True)
class CoopCompeteView(FixedChoices):
    """Text view of coop_compete."""

    players: int
    variant: str
    rounds: int
    shows_parameters: bool = True
    default_action: int = 0
    parse_penalty: float = 0.1

    def rules(self, agent: str) -> str:
        if self.players == 1:
            return (
                f"You are {agent}, the only player. Each round you choose to cooperate or to "
                f"compete; alone, both earn the same. {HOW_TO_ANSWER}"
            )
        if self.variant == "pair":
            pays = "You both earn more when you choose the same, and both lose when you differ."
        else:
            pays = (
                "Cooperating earns more when others cooperate; "
                "competing earns more when others compete."
            )
        if self.shows_parameters:
            pays += " A high cooperation level favours cooperating."
        return (
            f"You are {agent}, one of {self.players} players. Each round all players choose at "
            f"the same time to cooperate or to compete. {pays} Earn as much as you can. "
            f"{HOW_TO_ANSWER}"
        )

    def describe(self, agent: str, observation: Any) -> str:
        first, own, others, reward, time, level, difficulty = base.vector_of(observation).tolist()
        parts = [f"{round_of(time, self.rounds)}."]
        if first:
            parts.append("Nobody has chosen yet.")
        else:
            parts.append(f"You chose to {BINARY_ANSWERS[int(own)]} and earned {reward:.2f}.")
            company = self.players - 1
            if company:
                parts.append(f"Others cooperating: {round(others * company)} of {company}.")
        if level >= 0.0:
            parts.append(f"Cooperation level {level:.2f}, difficulty {difficulty:.2f}.")
        return " ".join(parts)


parallel_env = parallel_form(CoopCompete)
