"""Two-armed bandit whose better arm changes during an episode.

In each of `max_cycles` rounds every agent pulls the left arm (action 0) or the right arm (action 1)
of one machine per agent and earns 1 or 0. The probability of earning 1 is

    arm0_prob          for the left arm
    arm1_prob_start    for the right arm in the first switch_pull rounds
    arm1_prob_after    for the right arm afterwards

Agents do not affect each other's rewards, but each observes the others' choices and rewards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from srl_envs.games import base
from srl_envs.games.hidden import grid, with_split
from srl_envs.text import FixedChoices, round_of
from srl_envs.validation import (
    MOST_PLAYERS,
    number_between,
    true_or_false,
    whole_number,
)

ANSWERS = ("left", "right")
"""Answers in action order."""
WIN, LOSS = 1.0, 0.0

OBSERVATION_FIELDS = (
    "first_round",  # 1 before the first round, else 0
    "own_right",  # 1 if this agent pulled the right arm in the last round, else 0
    "last_reward",  # reward of the last round
    "others_right",  # share of the other agents that pulled right; 0.5 if there are none yet
    "others_reward",  # mean reward of the other agents in the last round; 0 if there are none yet
    "time",  # rounds played / max_cycles
    "switched",  # 1 once the right arm has changed, else 0; -1 with observe_switch=False
)


class Bandit(base.SimultaneousGame):
    """PettingZoo ParallelEnv of the bandit, with reward 1 for a win, else 0.

    Agents are agent_0, agent_1, ... Observations are float32 vectors of shape (7,), laid out as
    OBSERVATION_FIELDS. Infos of a round contain `phase` ("before" or "after" the switch, in this
    round) and `regret` (winning probability of the better arm minus that of the pulled arm).
    Invalid arguments raise EnvConfigError.

    Args:
        num_agents: Number of agents, from 1 to 10,000.
        arm0_prob: Winning probability of the left arm.
        arm1_prob_start: Winning probability of the right arm before the switch.
        arm1_prob_after: Winning probability of the right arm after the switch.
        switch_pull: Number of rounds before the right arm changes, at least 0.
        observe_switch: Show the change in observations and prompts, and its time in the rules.
        max_cycles: Number of rounds of an episode, at least 1.
        obs_mode: "vector", "dict" or "llm"; see SimultaneousGame.
        render_mode: "human", "ansi", "rgb_array" or None.
    """

    metadata: ClassVar[dict[str, Any]] = base.metadata_of("bandit_v0")

    def __init__(
        self,
        *,
        num_agents: int = 1,
        arm0_prob: float = 0.5,
        arm1_prob_start: float = 0.5,
        arm1_prob_after: float = 0.7,
        switch_pull: int = 50,
        observe_switch: bool = True,
        max_cycles: int = 1000,
        obs_mode: str = "vector",
        render_mode: str | None = None,
    ) -> None:
        agents = whole_number("num_agents", num_agents, 1, MOST_PLAYERS)
        left = number_between("arm0_prob", arm0_prob, 0.0, 1.0)
        before = left, number_between("arm1_prob_start", arm1_prob_start, 0.0, 1.0)
        after = left, number_between("arm1_prob_after", arm1_prob_after, 0.0, 1.0)
        self._chances = (before, after)
        self.switch_pull = whole_number("switch_pull", switch_pull, low=0)
        self.observe_switch = true_or_false("observe_switch", observe_switch)
        super().__init__(
            [f"agent_{index}" for index in range(agents)],
            ANSWERS,
            low=(0.0,) * 6 + (base.HIDDEN,),
            high=(1.0,) * 7,
            max_cycles=max_cycles,
            obs_mode=obs_mode,
            render_mode=render_mode,
        )

    def baselines(self) -> dict[str, float]:
        early, (before, after) = self._share_before_switch(), self._chances
        return {
            "uniform": (early * sum(before) + (1.0 - early) * sum(after)) / 2,
            "constant": max(self.constants()),
            "scripted": self.scripted_value(),
            "optimum": early * max(before) + (1.0 - early) * max(after),
        }

    def constants(self) -> list[float]:
        """Return the expected rewards per step of always left, and of always right."""
        early = self._share_before_switch()
        return [
            early * before + (1.0 - early) * after
            for before, after in zip(*self._chances, strict=True)
        ]

    def scripted_value(self) -> float:
        """Return the expected reward per step of the policy "win_stay_lose_shift"."""
        right, total = 0.5, 0.0  # probability that the policy pulls the right arm; sum of rewards
        for played in range(self.max_cycles):
            left_wins, right_wins = self._chances[played >= self.switch_pull]
            total += (1.0 - right) * left_wins + right * right_wins
            right = right * right_wins + (1.0 - right) * (1.0 - left_wins)
        return total / self.max_cycles

    def _share_before_switch(self) -> float:
        rounds = whole_number("max_cycles", self.max_cycles, low=1)
        return min(self.switch_pull, rounds) / rounds

    def make_view(self) -> BanditView:
        switch = self.switch_pull if self.observe_switch else None
        return BanditView(len(self.possible_agents), self.max_cycles, switch)

    def first_rows(self, options: Mapping[str, Any]) -> Sequence[base.Row]:
        return [(1.0, 0.0, 0.0, 0.5, 0.0, 0.0, self._switched())] * len(self.possible_agents)

    def play_round(self, chosen: Sequence[int], over: bool) -> base.Played:
        after = self.played > self.switch_pull  # `played` includes this round
        chances = self._chances[after]
        rewards = [
            WIN if luck < chances[arm] else LOSS
            for arm, luck in zip(chosen, self.np_random.random(len(chosen)).tolist(), strict=True)
        ]
        time, switched, others = self.played / self.rounds, self._switched(), len(chosen) - 1
        pulled, won = sum(chosen), sum(rewards)
        rows: list[base.Row] = [
            (
                0.0,
                arm,
                reward,
                (pulled - arm) / others if others else 0.5,
                (won - reward) / others if others else 0.0,
                time,
                switched,
            )
            for arm, reward in zip(chosen, rewards, strict=True)
        ]
        phase, best = "after" if after else "before", max(chances)
        return rows, rewards, [{"phase": phase, "regret": best - chances[arm]} for arm in chosen]

    def _switched(self) -> float:
        return float(self.played >= self.switch_pull) if self.observe_switch else base.HIDDEN


@dataclass(frozen=True)
class BanditView(FixedChoices):
    """Text view of Bandit."""

    choices: ClassVar[tuple[str, ...]] = ANSWERS

    players: int
    rounds: int
    switch: int | None = None
    """Number of rounds before the right arm changes; None if hidden."""

    def rules(self, agent: str) -> str:
        several = ""
        if self.players > 1:
            several = f"{self.players} players pull at the same time, each for themselves. "
        change = "may change during the game"
        if self.switch is not None:
            change = f"changes after {self.switch} rounds"
        return (
            f"You are {agent}. Each round you pull the left or the right arm of your machine and "
            "win 1 or nothing. Each arm wins with its own chance; the right arm's chance "
            f"{change}. {several}Win as often as you can. "
            "Write your choice alone on the last line: left or right."
        )

    def describe(self, agent: str, observation: Any) -> str:
        first, arm, reward, others, their_reward, time, switched = base.vector_of(
            observation
        ).tolist()
        parts = [f"{round_of(time, self.rounds)}."]
        if first:
            parts.append("Nobody has pulled yet.")
        else:
            parts.append(f"You pulled {ANSWERS[int(arm)]} and won {reward:.0f}.")
            count = self.players - 1
            if count:
                right, won = round(others * count), round(their_reward * count)
                parts.append(f"Of the {count} others {right} pulled right; {won} won.")
        if switched != base.HIDDEN:
            parts.append(f"The right arm has {'' if switched else 'not '}changed.")
        return " ".join(parts)


DRAWN = {
    "train": grid(
        arm0_prob=(0.3, 0.7),
        arm1_prob_start=(0.1, 0.9),
        arm1_prob_after=(0.1, 0.9),
        switch_pull=(4, 16, 32),
        observe_switch=(False,),
    ),
    "test": grid(
        arm0_prob=(0.2, 0.8),
        arm1_prob_start=(0.05, 0.95),
        arm1_prob_after=(0.05, 0.95),
        switch_pull=(8, 24),
        observe_switch=(False,),
    ),
}
"""Arguments that are drawn in each episode, by split."""

parallel_env = with_split(Bandit, OBSERVATION_FIELDS, DRAWN)
