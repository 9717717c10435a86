"""Team battle: two teams of agents in a social dilemma.

In each of `max_cycles` rounds every agent competes (action 0) or cooperates (action 1). With
base = max(0.1, 1 - difficulty), own = the share of the agent's team that cooperates (the agent
included) and rival = the share of the other team that cooperates, the reward of an agent is

    base + cooperation_weight * (own - 0.5) - 0.05 * (1 - own)    if it cooperates
    base + cooperation_weight * (own - 0.5) + 0.15 * rival        if it competes

plus normal noise, and at least 0. In the first `warmup_episodes` episodes every agent earns exactly
base.

The winner of an episode is the team with the higher sum of rewards per member, without noise.
Sums whose mean per round differs by at most 1e-9 are a draw, and so is every warm-up episode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import Any, ClassVar

from srl_envs.errors import EnvConfigError
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

BASE_FLOOR = 0.1  # base reward at difficulty 1
RAID = 0.15  # bonus for competing if all rivals cooperate
EXPOSURE = 0.05  # greatest loss of a cooperator in a team that competes
DRAW = 1e-9  # difference in mean reward per member that still counts as equal


@dataclass(frozen=True)
class TeamBattleRules(ChoiceRules):
    """Rewards after the warm-up, without noise, for the arguments of TeamBattle.

    `team_sizes` are the numbers of red and blue agents. Invalid arguments raise EnvConfigError.
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
            cooperation_weight=number_between(
                "cooperation_weight", self.cooperation_weight, -LARGEST
            ),
        )

    @property
    def group_sizes(self) -> tuple[int, ...]:
        return self.team_sizes

    @property
    def base_reward(self) -> float:
        """Base reward max(0.1, 1 - difficulty): each agent's reward in each round of warm-ups."""
        return max(BASE_FLOOR, 1.0 - self.difficulty)

    def payoff(self, action: int, own: float, rival: float) -> float:
        """Return an agent's reward for `action` (1 = cooperate), without noise, possibly negative.

        `own` and `rival` are the cooperating shares of its team (itself included) and the rivals.
        """
        bonus = -EXPOSURE * (1.0 - own) if action else RAID * rival
        return self.base_reward + self.cooperation_weight * (own - 0.5) + bonus

    def payoffs(self) -> list[list[tuple[tuple[float, float], tuple[float, float]]]]:
        """Return the rewards of `payoff`: [red cooperators][blue cooperators][team][action].

        Team 0 is red; action 1 cooperates. An action that no agent of the team chose is nan.
        """
        red, blue = self.team_sizes

        def pair(cooperators: int, size: int, rival: float) -> tuple[float, float]:
            own = cooperators / size
            return (
                self.payoff(0, own, rival) if cooperators < size else nan,
                self.payoff(1, own, rival) if cooperators > 0 else nan,
            )

        return [
            [(pair(a, red, b / blue), pair(b, blue, a / red)) for b in range(blue + 1)]
            for a in range(red + 1)
        ]

    def expected_rewards(self, actions: Sequence[int]) -> tuple[float, ...]:
        red, blue = self.team_sizes
        own_red, own_blue = sum(actions[:red]) / red, sum(actions[red:]) / blue
        rewards = [self.payoff(action, own_red, own_blue) for action in actions[:red]]
        rewards += [self.payoff(action, own_blue, own_red) for action in actions[red:]]
        return tuple(max(0.0, reward) for reward in rewards)


TEAM_A, TEAM_B = "team_a", "team_b"

OBSERVATION_FIELDS = (
    "first_round",  # 1 before the first round, else 0
    "own_cooperated",  # 1 if this agent cooperated in the last round, else 0
    "own_team_cooperated",  # own of the last round; 0.5 before the first round
    "rivals_cooperated",  # rival of the last round; 0.5 before the first round
    "last_reward",  # reward of the last round
    "time",  # rounds played / max_cycles
    "warmup",  # 1 in a warm-up episode, else 0
    "blue",  # 1 for an agent of the blue team, else 0
    "difficulty",
)


class TeamBattle(ChoiceGame):
    """PettingZoo ParallelEnv of the two teams.

    Agents are red_0, red_1, ... (team_a), then blue_0, blue_1, ... (team_b). Both actions are
    always legal. Observations are float32 vectors of shape (9,) without `talk`, laid out as
    OBSERVATION_FIELDS. Infos of a round contain `cooperation_ratio` (share of all agents that
    cooperated), `team_cooperation` (team -> share), `phase` ("warmup" or "battle") and, in the last
    round, `winner`: "team_a", "team_b" or "draw". Invalid arguments raise EnvConfigError.

    Warm-up episodes are counted from the last seed: `reset(seed=...)` starts episode 0, `reset()`
    continues the count, and `reset(options={"episode": k})` starts episode k.

    Args:
        team_size: Number of agents per team, or a pair (red, blue), each from 1 to 10,000.
        difficulty: From 0 to 1. The base reward is max(0.1, 1 - difficulty).
        cooperation_weight: Weight of the cooperation of the agent's team. Below 0, it hurts.
        noise_std: Standard deviation of the noise of rewards after the warm-up, at least 0.
        warmup_episodes: Number of warm-up episodes, at least 0.
        talk: Number of words that an action can add, from 0 to 8; see TalkingGame.
        max_cycles: Number of rounds of an episode, at least 1.
        obs_mode: "vector", "dict" or "llm"; see SimultaneousGame.
        render_mode: "human", "ansi", "rgb_array" or None.
    """

    metadata: ClassVar[dict[str, Any]] = base.metadata_of("team_battle_v0")
    rules: TeamBattleRules

    def __init__(
        self,
        *,
        team_size: int | Sequence[int] = 4,
        difficulty: float = 0.3,
        cooperation_weight: float = 0.25,
        noise_std: float = 0.005,
        warmup_episodes: int = 0,
        talk: int = 0,
        max_cycles: int = 1000,
        obs_mode: str = "vector",
        render_mode: str | None = None,
    ) -> None:
        sizes: Any = team_size
        if not isinstance(team_size, Sequence) or isinstance(team_size, str):
            sizes = (team_size, team_size)
        if len(sizes) != 2:
            raise EnvConfigError(f"team_size must be one number or (red, blue), got {team_size!r}")
        self.rules = TeamBattleRules(sizes, difficulty, cooperation_weight)
        self.warmup_episodes = whole_number("warmup_episodes", warmup_episodes, low=0)
        self._payoffs = self.rules.payoffs()
        red, blue = self.rules.team_sizes
        self._difficulty = self.rules.difficulty
        self._warmup = True
        self._score = [0.0, 0.0]  # Sums of rewards per member of red and blue, without noise.
        agents = [f"red_{i}" for i in range(red)] + [f"blue_{i}" for i in range(blue)]
        self.teams = {a: TEAM_A if a.startswith("red") else TEAM_B for a in agents}
        best = self.rules.base_reward + 0.5 * abs(self.rules.cooperation_weight) + RAID
        ceiling = best + base.NOISE_LIMIT * number_between("noise_std", noise_std, 0.0)
        super().__init__(
            agents,
            BINARY_ANSWERS,
            low=(0.0,) * 9,
            high=(1.0, 1.0, 1.0, 1.0, ceiling, 1.0, 1.0, 1.0, 1.0),
            noise_std=noise_std,
            talk=talk,
            max_cycles=max_cycles,
            obs_mode=obs_mode,
            render_mode=render_mode,
        )

    def make_view(self) -> TeamBattleView:
        return TeamBattleView(self.rules.team_sizes, self.max_cycles, self.hides_rules)

    def first_rows(self, options: Mapping[str, Any]) -> Sequence[base.Row]:
        episode = options.get("episode", self._episode)
        self._episode = whole_number('options["episode"]', episode, low=0)
        self._warmup = self._episode < self.warmup_episodes
        self._score = [0.0, 0.0]
        red, blue = self.rules.team_sizes
        warmup, difficulty = float(self._warmup), self._difficulty
        first = (1.0, 0.0, 0.5, 0.5, 0.0, 0.0, warmup)
        return [(*first, 0.0, difficulty)] * red + [(*first, 1.0, difficulty)] * blue

    def play_round(self, chosen: Sequence[int], over: bool) -> base.Played:
        red, blue = self.rules.team_sizes
        red_total, blue_total = sum(chosen[:red]), sum(chosen[red:])
        share_red, share_blue = red_total / red, blue_total / blue
        if self._warmup:
            rewards = [self.rules.base_reward] * len(chosen)
        else:
            of_red, of_blue = self._payoffs[red_total][blue_total]
            means = [of_red[action] for action in chosen[:red]]
            means += [of_blue[action] for action in chosen[red:]]
            self._score[0] += sum(means[:red]) / red
            self._score[1] += sum(means[red:]) / blue
            rewards = [
                reward if (reward := mean + extra) > 0.0 else 0.0
                for mean, extra in zip(means, self.noise(len(chosen)), strict=True)
            ]
        time, warmup, difficulty = self.played / self.rounds, self._warmup, self._difficulty
        played = list(zip(chosen, rewards, strict=True))
        rows = [
            (0.0, action, share_red, share_blue, reward, time, warmup, 0.0, difficulty)
            for action, reward in played[:red]
        ]
        rows += [
            (0.0, action, share_blue, share_red, reward, time, warmup, 1.0, difficulty)
            for action, reward in played[red:]
        ]
        ratio, phase = (
            (red_total + blue_total) / len(chosen),
            "warmup" if self._warmup else "battle",
        )
        infos: list[dict[str, Any]] = [
            {
                "cooperation_ratio": ratio,
                "team_cooperation": {TEAM_A: share_red, TEAM_B: share_blue},
                "phase": phase,
            }
            for _ in chosen
        ]
        if over:
            lead = (self._score[0] - self._score[1]) / self.rounds
            winner = "draw" if abs(lead) <= DRAW else TEAM_A if lead > 0.0 else TEAM_B
            for info in infos:
                info["winner"] = winner
        return rows, rewards, infos


@dataclass(frozen=True)
class TeamBattleView(FixedChoices):
    """Text view of TeamBattle."""

    team_sizes: tuple[int, int]
    rounds: int
    hidden: bool = False
    """True if the rules must not state the agent's team, nor if cooperation pays."""

    def rules(self, agent: str) -> str:
        red, blue = self.team_sizes
        if self.hidden:
            place = f"one of {red + blue} players in a red team of {red} and a blue team of {blue}"
            pays = FIND_OUT
        else:
            team, mine, rivals, theirs = self._sides(agent.startswith("blue"))
            place = f"in the {team} team of {mine}, against the {rivals} team of {theirs}"
            pays = "Cooperation pays your whole team."
        return (
            f"You are {agent} {place}. "
            "Each round all players choose at the same time to cooperate or to compete. "
            f"{pays} Competing pays more when rivals cooperate. "
            f"Cooperating while teammates compete costs a little. {HOW_TO_ANSWER}"
        )

    def describe(self, agent: str, observation: Any) -> str:
        vector = base.vector_of(observation).tolist()
        first, action, own, rival, reward, time, warmup, blue, difficulty = vector
        team, mine, _, theirs = self._sides(blue > 0.5)
        parts = [f"{round_of(time, self.rounds)}."]
        if self.hidden:
            parts.append(f"Your team is {team}.")
        if warmup:
            parts.append("Warm-up: all earn the same.")
        if first:
            parts.append("Nobody has chosen yet.")
        else:
            parts.append(f"You chose to {BINARY_ANSWERS[int(action)]} and earned {reward:.2f}.")
            parts.append(f"Team cooperating: {round(own * mine)} of {mine}.")
            parts.append(f"Rivals cooperating: {round(rival * theirs)} of {theirs}.")
        if difficulty != base.HIDDEN:
            parts.append(f"Difficulty {difficulty:.2f}.")
        return " ".join(parts)

    def _sides(self, is_blue: bool) -> tuple[str, int, str, int]:
        red, blue = self.team_sizes
        return ("blue", blue, "red", red) if is_blue else ("red", red, "blue", blue)


DRAWN = {
    "train": grid(cooperation_weight=(-0.5, -0.25, 0.25, 0.5), difficulty=(0.1, 0.5)),
    "test": grid(cooperation_weight=(-0.6, -0.35, 0.35, 0.6), difficulty=(0.1, 0.5)),
}
"""Arguments that are drawn in each episode, by split."""

parallel_env = with_split(TeamBattle, OBSERVATION_FIELDS, DRAWN)
