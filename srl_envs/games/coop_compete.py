"""Cooperate or compete: a symmetric coordination game of simultaneous choices.

In each of `max_cycles` rounds every agent competes (action 0) or cooperates (action 1). With
base = base_scale * max(0.1, 1 - difficulty), L = cooperation_level and r = the share of the *other*
agents that cooperate, the reward of an agent is

    base + cooperation_weight * L * r                 if it cooperates
    base + competition_weight * (1 - L) * (1 - r)     if it competes
    base - 0.1                                        in variant "pair", if the two choices differ

plus normal noise, and at least 0. A single agent always earns base plus noise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import Any, ClassVar

import numpy as np

from srl_envs.errors import EnvConfigError
from srl_envs.games import base
from srl_envs.games.choices import ChoiceGame, ChoiceRules
from srl_envs.games.hidden import FIND_OUT, grid, with_split
from srl_envs.text import BINARY_ANSWERS, HOW_TO_ANSWER, FixedChoices, round_of
from srl_envs.validation import (
    LARGEST,
    MOST_PLAYERS,
    check_choice,
    number_between,
    set_fields,
    whole_number,
)

VARIANTS = ("population", "pair")
BASE_FLOOR = 0.1  # base reward / base_scale at difficulty 1
MISMATCH_PENALTY = 0.1  # subtracted if the two agents of a pair choose differently


@dataclass(frozen=True)
class CoopCompeteRules(ChoiceRules):
    """Rewards without noise, for the arguments of CoopCompete; EnvConfigError if one is invalid."""

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
        """Return a pair of rewards (competitor, cooperator) per number of cooperators, from 0.

        Rewards are without noise and may be negative. A choice that no agent made is nan.
        """
        base_reward = self.base_scale * max(BASE_FLOOR, 1.0 - self.difficulty)
        together = self.cooperation_weight * self.cooperation_level
        apart = self.competition_weight * (1.0 - self.cooperation_level)
        others = self.num_agents - 1
        table = []
        for total in range(self.num_agents + 1):
            if others == 0:
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


OBSERVATION_FIELDS = (
    "first_round",  # 1 before the first round, else 0
    "own_cooperated",  # 1 if this agent cooperated in the last round, else 0
    "others_cooperated",  # share of the other agents that cooperated; 0.5 before the first round
    "last_reward",  # reward of the last round
    "time",  # rounds played / max_cycles
    "cooperation_level",  # L
    "difficulty",
)


class CoopCompete(ChoiceGame):
    """PettingZoo ParallelEnv of the coordination game.

    Agents are agent_0, agent_1, ... Both actions are always legal. Observations are float32 vectors
    of shape (7,) without `talk`, laid out as OBSERVATION_FIELDS. Infos of a round contain
    `cooperation_ratio`: the share of agents that cooperated. Invalid arguments raise
    EnvConfigError.

    Args:
        num_agents: Number of agents, from 1 to 10,000. None for 4, or 2 in variant "pair".
        cooperation_level: Factor L of the bonus for cooperating, from 0 to 1; 1 - L for competing.
        difficulty: From 0 to 1. The base reward has the factor max(0.1, 1 - difficulty).
        variant: "population", or "pair": two agents and a penalty for different choices.
        base_scale: Factor of the base reward, at least 0.
        noise_std: Standard deviation of the noise of each reward, at least 0.
        cooperation_weight: Weight of the bonus for cooperating, at least 0.
        competition_weight: Weight of the bonus for competing, at least 0.
        talk: Number of words that an action can add, from 0 to 8; see TalkingGame.
        turnover: Number of agents that join during an episode, each in the place of one that
            leaves, from 0 to `max_cycles` - 1. `num_agents` act in each round.
        max_cycles: Number of rounds of an episode, at least 1.
        obs_mode: "vector", "dict" or "llm"; see SimultaneousGame.
        render_mode: "human", "ansi", "rgb_array" or None.
    """

    metadata: ClassVar[dict[str, Any]] = base.metadata_of("coop_compete_v0")
    rules: CoopCompeteRules

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
        talk: int = 0,
        turnover: int = 0,
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
        self._payoffs = self.rules.payoffs()
        num_agents = self.rules.num_agents
        self._parameters = self.rules.cooperation_level, self.rules.difficulty
        noise = number_between("noise_std", noise_std, 0.0)
        ceiling = float(np.nanmax(self._payoffs)) + base.NOISE_LIMIT * noise
        super().__init__(
            [f"agent_{i}" for i in range(num_agents)],
            BINARY_ANSWERS,
            low=(0.0,) * 7,
            high=(1.0, 1.0, 1.0, ceiling, 1.0, 1.0, 1.0),
            noise_std=noise,
            talk=talk,
            turnover=turnover,
            max_cycles=max_cycles,
            obs_mode=obs_mode,
            render_mode=render_mode,
        )

    def make_view(self) -> CoopCompeteView:
        rules, changes = self.rules, self.turnover > 0
        return CoopCompeteView(
            rules.num_agents, rules.variant, self.max_cycles, self.hides_rules, changes
        )

    def first_rows(self, options: Mapping[str, Any]) -> Sequence[base.Row]:
        return [(1.0, 0.0, 0.5, 0.0, 0.0, *self._parameters)] * self.rules.num_agents

    def newcomer_row(self, row: base.Row) -> base.Row:
        return (1.0, 0.0, row[2], 0.0, *row[4:])

    def play_round(self, chosen: Sequence[int], over: bool) -> base.Played:
        total, time, others = sum(chosen), self.played / self.rounds, len(chosen) - 1
        payoffs, (level, difficulty) = self._payoffs[total], self._parameters
        rows, rewards = [], []
        for action, noise in zip(chosen, self.noise(len(chosen)), strict=True):
            reward = max(0.0, payoffs[action] + noise)
            rewards.append(reward)
            share = (total - action) / others if others else 0.5
            rows.append((0.0, action, share, reward, time, level, difficulty))
        ratio = total / len(chosen)
        return rows, rewards, [{"cooperation_ratio": ratio} for _ in chosen]


@dataclass(frozen=True)
class CoopCompeteView(FixedChoices):
    """Text view of CoopCompete."""

    players: int
    variant: str
    rounds: int
    hidden: bool = False
    """True if cooperation level and difficulty are hidden."""
    changes: bool = False
    """True if players leave and others join during the game."""

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
        if self.changes:
            pays += " Players may leave, and others take their places."
        favors = FIND_OUT if self.hidden else "A high cooperation level favours cooperating."
        return (
            f"You are {agent}, one of {self.players} players. Each round all players choose at "
            f"the same time to cooperate or to compete. {pays} {favors} Earn as much as you can. "
            f"{HOW_TO_ANSWER}"
        )

    def describe(self, agent: str, observation: Any) -> str:
        first, own, others, reward, time, level, difficulty = base.vector_of(observation).tolist()
        parts = [f"{round_of(time, self.rounds)}."]
        if first and not time:
            parts.append("Nobody has chosen yet.")
        else:
            chose = f"You chose to {BINARY_ANSWERS[int(own)]} and earned {reward:.2f}."
            parts.append("You have just joined." if first else chose)
            count = self.players - 1
            if count:
                parts.append(f"Others cooperating: {round(others * count)} of {count}.")
        if level != base.HIDDEN:
            parts.append(f"Cooperation level {level:.2f}, difficulty {difficulty:.2f}.")
        return " ".join(parts)


DRAWN = {
    "train": grid(cooperation_level=(0.1, 0.3, 0.7, 0.9), difficulty=(0.1, 0.5)),
    "test": grid(cooperation_level=(0.0, 0.2, 0.8, 1.0), difficulty=(0.1, 0.5)),
}
"""Arguments that are drawn in each episode, by split."""

parallel_env = with_split(CoopCompete, OBSERVATION_FIELDS, DRAWN)
