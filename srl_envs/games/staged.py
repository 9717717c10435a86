"""Staged game: common interest first, then adversaries among the agents.

In each of `max_cycles` rounds every agent competes (action 0) or cooperates (action 1). The first
quarter of the agents (rounded down, at least one) are adversaries. Episodes are numbered k = 0, 1,
... With W = warmup_episodes, c = the share of all agents that cooperate and

    base = max(0.1, 1 - difficulty) * (1 + 0.3 * ramp)
    ramp = (k - W) / W, clipped to [0, 1]; 1 if W = 0

every agent earns exactly base in warm-up episodes (k < W). Afterwards the reward of an agent is

    base + cooperation_weight * (c - 0.5)
         + 0.1 * c     for an adversary that competes
         - 0.05 * c    for an adversary that cooperates
         - 0.05        for any agent that cooperates while c < 0.3 or competes while c > 0.7

plus normal noise, and at least 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from srl_envs.games import base
from srl_envs.games.choices import ChoiceGame, ChoiceRules
from srl_envs.games.hidden import FIND_OUT, grid, with_split
from srl_envs.text import BINARY_ANSWERS, HOW_TO_ANSWER, FixedChoices, round_of
from srl_envs.validation import (
    LARGEST,
    MOST_PLAYERS,
    number_between,
    set_fields,
    whole_number,
)

BASE_FLOOR = 0.1  # base reward at difficulty 1 and ramp 0
ADVERSARIES = 0.25  # share of the agents that are adversaries
RAMP = 0.3  # relative increase of the base at ramp 1
PREY = 0.1  # bonus of an adversary that competes while all others cooperate
DISGUISE = 0.05  # loss of an adversary that cooperates while all cooperate
MISFIT = 0.05  # penalty for a choice that few others make
FEW, MANY = 0.3, 0.7  # the penalty applies to cooperating below FEW and competing above MANY


@dataclass(frozen=True)
class StagedRules(ChoiceRules):
    """Rewards without noise, for the arguments of Staged; EnvConfigError if one is invalid."""

    num_agents: int = 8
    difficulty: float = 0.3
    cooperation_weight: float = 0.25
    warmup_episodes: int = 0

    def __post_init__(self) -> None:
        set_fields(
            self,
            num_agents=whole_number("num_agents", self.num_agents, 1, MOST_PLAYERS),
            difficulty=number_between("difficulty", self.difficulty, 0.0, 1.0),
            cooperation_weight=number_between(
                "cooperation_weight", self.cooperation_weight, -LARGEST
            ),
            warmup_episodes=whole_number("warmup_episodes", self.warmup_episodes, low=0),
        )

    @property
    def adversaries(self) -> int:
        """Number of adversaries (the first agents): a quarter, rounded down, at least 1."""
        return max(1, int(ADVERSARIES * self.num_agents))

    @property
    def group_sizes(self) -> tuple[int, ...]:
        return self.adversaries, self.num_agents - self.adversaries

    def ramp(self, episode: int) -> float:
        """Return (episode - W) / W, clipped to [0, 1], with W = `warmup_episodes`; 1 if W = 0."""
        if not self.warmup_episodes:
            return 1.0
        since = episode - self.warmup_episodes
        return min(1.0, max(0.0, since / self.warmup_episodes))

    def base_reward(self, ramp: float) -> float:
        """Return max(0.1, 1 - difficulty) * (1 + 0.3 * ramp); at ramp 0, the warm-up's reward."""
        return max(BASE_FLOOR, 1.0 - self.difficulty) * (1.0 + RAMP * ramp)

    def payoff(self, action: int, total: int, adversary: bool, ramp: float = 1.0) -> float:
        """Return an agent's reward for `action` after the warm-up, without noise, maybe below 0.

        Action 1 cooperates; `total` is the number of cooperating agents, the agent included.
        `adversary` is True if the agent is one; `ramp` is from 0 to 1.
        """
        share = total / self.num_agents
        reward = self.base_reward(ramp) + self.cooperation_weight * (share - 0.5)
        if adversary:
            reward += -DISGUISE * share if action else PREY * share
        if share < FEW if action else share > MANY:
            reward -= MISFIT
        return reward

    def payoffs(self, ramp: float) -> list[tuple[tuple[float, float], tuple[float, float]]]:
        """Return the rewards of `payoff`, indexed [cooperators][is adversary][action].

        Action 1 cooperates; `ramp` is from 0 to 1. Impossible choices (to compete if all cooperate)
        have entries too.
        """

        def pair(total: int, adversary: bool) -> tuple[float, float]:
            return self.payoff(0, total, adversary, ramp), self.payoff(1, total, adversary, ramp)

        return [(pair(total, False), pair(total, True)) for total in range(self.num_agents + 1)]

    def expected_rewards(self, actions: Sequence[int]) -> tuple[float, ...]:
        """Return each agent's reward (at least 0, no noise) at ramp 1; action 1 is to cooperate."""
        total, bad = sum(actions), self.adversaries
        return tuple(
            max(0.0, self.payoff(action, total, agent < bad))
            for agent, action in enumerate(actions)
        )


OBSERVATION_FIELDS = (
    "first_round",  # 1 before the first round, else 0
    "own_cooperated",  # 1 if this agent cooperated in the last round, else 0
    "all_cooperated",  # c of the last round; 0.5 before the first round
    "last_reward",  # reward of the last round
    "time",  # rounds played / max_cycles
    "warmup",  # 1 in a warm-up episode, else 0
    "ramp",  # ramp of this episode, from 0 to 1
    "adversary",  # 1 if this agent is an adversary, else 0; the roles of others are hidden
    "difficulty",
)


class Staged(ChoiceGame):
    """PettingZoo ParallelEnv of the staged game.

    Agents are agent_0, agent_1, ..., the adversaries first. Both actions are always legal.
    Observations are float32 vectors of shape (9,), laid out as OBSERVATION_FIELDS. Infos of a
    round contain `cooperation_ratio` (share of all agents that cooperated), `phase` ("warmup" or
    "divergence") and `adversaries` (list of their numbers). Invalid arguments raise EnvConfigError.

    Episodes are counted from the last seed: `reset(seed=...)` starts episode 0, `reset()`
    continues the count, and `reset(options={"episode": k})` starts episode k.

    Args:
        num_agents: Number of agents, from 1 to 10,000.
        difficulty: From 0 to 1. The base reward has the factor max(0.1, 1 - difficulty).
        cooperation_weight: Weight of the cooperating share. Below 0, cooperation hurts.
        noise_std: Standard deviation of the noise of rewards after the warm-up, at least 0.
        warmup_episodes: Number of warm-up episodes, at least 0; W of `StagedRules.ramp`.
        max_cycles: Number of rounds of an episode, at least 1.
        obs_mode: "vector", "dict" or "llm"; see SimultaneousGame.
        render_mode: "human", "ansi", "rgb_array" or None.
    """

    metadata: ClassVar[dict[str, Any]] = base.metadata_of("staged_v0")
    rules: StagedRules

    def __init__(
        self,
        *,
        num_agents: int = 8,
        difficulty: float = 0.3,
        cooperation_weight: float = 0.25,
        noise_std: float = 0.005,
        warmup_episodes: int = 0,
        max_cycles: int = 1000,
        obs_mode: str = "vector",
        render_mode: str | None = None,
    ) -> None:
        self.rules = StagedRules(num_agents, difficulty, cooperation_weight, warmup_episodes)
        self.warmup_episodes = self.rules.warmup_episodes
        self._kinds = [agent < self.rules.adversaries for agent in range(self.rules.num_agents)]
        names = ("adversary" if bad else "player" for bad in self._kinds)
        self.roles = {f"agent_{agent}": name for agent, name in enumerate(names)}
        """Role of each agent, "adversary" or "player"."""
        self._difficulty = self.rules.difficulty
        self._warmup = True
        self._ramp = 0.0
        self._payoffs = self.rules.payoffs(self._ramp)
        noise = number_between("noise_std", noise_std, 0.0)
        best = self.rules.base_reward(1.0) + 0.5 * abs(self.rules.cooperation_weight) + PREY
        ceiling = best + base.NOISE_LIMIT * noise
        super().__init__(
            [f"agent_{index}" for index in range(self.rules.num_agents)],
            BINARY_ANSWERS,
            low=(0.0,) * 9,
            high=(1.0, 1.0, 1.0, ceiling, 1.0, 1.0, 1.0, 1.0, 1.0),
            noise_std=noise_std,
            max_cycles=max_cycles,
            obs_mode=obs_mode,
            render_mode=render_mode,
        )

    def make_view(self) -> StagedView:
        rules = self.rules
        return StagedView(rules.num_agents, rules.adversaries, self.max_cycles, self.hides_rules)

    def first_rows(self, options: Mapping[str, Any]) -> Sequence[base.Row]:
        episode = options.get("episode", self._episode)
        self._episode = whole_number('options["episode"]', episode, low=0)
        self._warmup = self._episode < self.warmup_episodes
        ramp = self.rules.ramp(self._episode)
        if ramp != self._ramp:
            self._ramp, self._payoffs = ramp, self.rules.payoffs(ramp)
        return [
            (1.0, 0.0, 0.5, 0.0, 0.0, float(self._warmup), ramp, float(bad), self._difficulty)
            for bad in self._kinds
        ]

    def play_round(self, chosen: Sequence[int], over: bool) -> base.Played:
        total = sum(chosen)
        share = total / len(chosen)
        if self._warmup:
            rewards = [self.rules.base_reward(0.0)] * len(chosen)
        else:
            payoffs = self._payoffs[total]
            rewards = [
                reward if (reward := payoffs[bad][action] + extra) > 0.0 else 0.0
                for bad, action, extra in zip(
                    self._kinds, chosen, self.noise(len(chosen)), strict=True
                )
            ]
        time, warmup, ramp = self.played / self.rounds, self._warmup, self._ramp
        rows = [
            (0.0, action, share, reward, time, warmup, ramp, bad, self._difficulty)
            for action, reward, bad in zip(chosen, rewards, self._kinds, strict=True)
        ]
        phase = "warmup" if self._warmup else "divergence"
        adversaries = sorted(self.order[: self.rules.adversaries])
        infos: list[dict[str, Any]] = [
            {"cooperation_ratio": share, "phase": phase, "adversaries": adversaries.copy()}
            for _ in chosen
        ]
        return rows, rewards, infos


@dataclass(frozen=True)
class StagedView(FixedChoices):
    """Text view of Staged."""

    players: int
    adversaries: int
    rounds: int
    hidden: bool = False
    """True if the game hides cooperation weight and difficulty; changes the rules text only."""

    def rules(self, agent: str) -> str:
        if self.players == 1:
            return (
                f"You are {agent}, the only player. Each round you choose to cooperate or to "
                f"compete; one of the two may earn more. {HOW_TO_ANSWER}"
            )
        pays = FIND_OUT if self.hidden else "The more cooperate, the more all earn."
        return (
            f"You are {agent}, one of {self.players} players; {self.adversaries} of them "
            "gain by competing while others cooperate. Each round all choose at the same time to "
            f"cooperate or to compete. {pays} Cooperating among few "
            f"cooperators or competing among many costs a little. {HOW_TO_ANSWER}"
        )

    def describe(self, agent: str, observation: Any) -> str:
        first, own, share, reward, time, warmup, _, adversary, difficulty = base.vector_of(
            observation
        ).tolist()
        parts = [f"{round_of(time, self.rounds)}."]
        if warmup:
            parts.append("Warm-up: all earn the same.")
        if adversary and self.players > 1:
            parts.append("You are an adversary.")
        if first:
            parts.append("Nobody has chosen yet.")
        else:
            parts.append(f"You chose to {BINARY_ANSWERS[int(own)]} and earned {reward:.2f}.")
            if self.players > 1:
                parts.append(f"Cooperating: {round(share * self.players)} of {self.players}.")
        if difficulty != base.HIDDEN:
            parts.append(f"Difficulty {difficulty:.2f}.")
        return " ".join(parts)


DRAWN = {
    "train": grid(cooperation_weight=(-0.5, -0.25, 0.25, 0.5), difficulty=(0.1, 0.5)),
    "test": grid(cooperation_weight=(-0.6, -0.35, 0.35, 0.6), difficulty=(0.1, 0.5)),
}
"""Arguments that are drawn in each episode, by split."""

parallel_env = with_split(Staged, OBSERVATION_FIELDS, DRAWN)
