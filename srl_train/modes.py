"""Reward modes: pure functions from the raw rewards of one episode to training rewards.

Agents are in the environment's order; an agent that leaves early has fewer steps, and one that
joins late has nan before its first step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from srl_train.config.section import Section, chosen_by
from srl_train.errors import ConfigError

Rewards = Mapping[str, Sequence[float]]
"""Agent to the reward of each of its steps."""
Teams = Mapping[str, str] | None
"""Agent to its team; None if the environment has no teams, and all agents are one team."""
ModeState = Mapping[str, float]
"""Numbers that a mode keeps between rounds, saved in checkpoints."""

BALANCE_START = 0.5
"""Mixed mode: weight of competition in the first round."""
BALANCE_RATE = 0.1
"""Mixed mode: step size of the balance per round."""


@dataclass(frozen=True)
class Mode:
    """Reward mode: functions from raw to training rewards, with explicit state."""

    shape: Callable[[Rewards, Teams, ModeState], dict[str, list[float]]]
    """(raw rewards of one episode, teams, state) -> agent to its shaped reward per step."""
    init: Callable[[], ModeState] = dict
    """() -> the state before the first round."""
    update: Callable[[ModeState, float | None], ModeState] = lambda state, rate: state
    """(state, cooperation rate of the round or None) -> next state; after each round."""
    speaks_first: Callable[[Sequence[str], Teams], dict[str, tuple[str, ...]]] = (
        lambda agents, teams: {}
    )
    """(agents, teams) -> {leader: agents that receive its message before they decide}."""


def raw() -> Mode:
    """Return the mode whose training rewards are the environment's rewards."""
    return Mode(lambda rewards, teams, state: {a: list(values) for a, values in rewards.items()})


def zero_sum() -> Mode:
    """Return the mode with the team's mean reward minus the rivals' mean reward, at every step.

    Rivals are the agents of all other teams; without teams every agent is a team. Both means are
    over the agents that have the step, and the rivals' mean is 0 if none has it. The rewards of
    a step add up to 0 if there are two teams of equal size and all agents have it.
    """

    def shape(rewards: Rewards, teams: Teams, state: ModeState) -> dict[str, list[float]]:
        shaped: dict[str, list[float]] = {}
        sides = teams or {agent: agent for agent in rewards}
        for agent, values in rewards.items():
            allies = [other for other in rewards if _same_team(other, agent, sides)]
            rivals = [other for other in rewards if other not in allies]
            shaped[agent] = [
                _mean_at(rewards, allies, step) - _mean_at(rewards, rivals, step)
                for step in range(len(values))
            ]
        return shaped

    return Mode(shape)


def cooperative(cooperation_strength: float = 0.6) -> Mode:
    """Return the mode (1 - k) * own reward + k * team mean, with k the `cooperation_strength`.

    The mean is over the agents of the team that have the step, including the agent itself. Without
    teams it is over all agents.
    """
    return Mode(
        lambda rewards, teams, state: _blended(
            rewards, teams, dict.fromkeys(rewards, cooperation_strength)
        )
    )


def competitive(competition_intensity: float = 0.4) -> Mode:
    """Return the mode that adds a bonus for an agent's rank by return to the agent's last reward.

    The bonus is `competition_intensity` * (n - rank) / n, for the n agents with a step; teams have
    no effect. Rank 1 has the highest raw return of the episode; equal returns have their mean rank.
    """

    def shape(rewards: Rewards, teams: Teams, state: ModeState) -> dict[str, list[float]]:
        # fsum: agents with the same rewards in another order must tie.
        returns = {
            agent: math.fsum(value for value in values if not math.isnan(value))
            for agent, values in rewards.items()
            if len(values)
        }
        shaped = {agent: list(values) for agent, values in rewards.items()}
        for agent, bonus in rank_bonuses(returns).items():
            shaped[agent][-1] += competition_intensity * bonus
        return shaped

    return Mode(shape)


def mixed(cooperation_strength: float = 0.6, competition_intensity: float = 0.4) -> Mode:
    """Return the mode (1 - b) * `cooperative` + b * `competitive` reward, with their arguments.

    The balance b starts at 0.5 and follows the cooperation rate of each round:
    b <- 0.9 * b + 0.1 * rate. A round without a cooperation rate keeps b.
    State: {"balance": b}, 0 <= b <= 1.
    """
    cooperation, competition = cooperative(cooperation_strength), competitive(competition_intensity)

    def shape(rewards: Rewards, teams: Teams, state: ModeState) -> dict[str, list[float]]:
        balance = state["balance"]
        blended = cooperation.shape(rewards, teams, state)
        ranked = competition.shape(rewards, teams, state)
        return {
            agent: [
                (1.0 - balance) * shared + balance * rivaled
                for shared, rivaled in zip(blended[agent], ranked[agent], strict=True)
            ]
            for agent in rewards
        }

    def update(state: ModeState, cooperation_rate: float | None) -> ModeState:
        if cooperation_rate is None:
            return state
        balance = (1.0 - BALANCE_RATE) * state["balance"] + BALANCE_RATE * cooperation_rate
        return {"balance": min(max(balance, 0.0), 1.0)}

    return Mode(shape, lambda: {"balance": BALANCE_START}, update)


def hierarchical(cooperation_strength: float = 0.6, leader: str | None = None) -> Mode:
    """Return the mode in which one agent per team leads and receives the team's mean reward.

    Followers receive their leader's message before they decide, and the reward of `cooperative`.
    A team's leader (without teams: of all agents) is its first agent, or `leader` in its team.
    `shape` and `speaks_first` raise ConfigError if `leader` is not an agent.
    """

    def shape(rewards: Rewards, teams: Teams, state: ModeState) -> dict[str, list[float]]:
        leaders = dict.fromkeys(_leaders(tuple(rewards), teams, leader), 1.0)
        return _blended(rewards, teams, dict.fromkeys(rewards, cooperation_strength) | leaders)

    def speaks_first(agents: Sequence[str], teams: Teams) -> dict[str, tuple[str, ...]]:
        return {
            first: tuple(
                agent for agent in agents if agent != first and _same_team(agent, first, teams)
            )
            for first in _leaders(agents, teams, leader)
        }

    return Mode(shape, speaks_first=speaks_first)


MODES: Mapping[str, Callable[[Any], Mode]] = {
    "cooperative": lambda mode: cooperative(mode.cooperation_strength),
    "competitive": lambda mode: competitive(mode.competition_intensity),
    "mixed": lambda mode: mixed(mode.cooperation_strength, mode.competition_intensity),
    "hierarchical": lambda mode: hierarchical(mode.cooperation_strength, mode.leader),
    "zero_sum": lambda mode: zero_sum(),
    "raw": lambda mode: raw(),
}
"""Name to a function from the `mode` section of a configuration to the mode."""


def rank_bonuses(returns: Mapping[str, float]) -> dict[str, float]:
    """Return agent -> (n - rank) / n; rank 1 is the highest return, ties have a mean rank."""
    count = len(returns)
    bonuses = {}
    for agent, value in returns.items():
        better = sum(other > value for other in returns.values())
        equal = sum(other == value for other in returns.values())
        bonuses[agent] = (count - (better + (equal + 1) / 2)) / count
    return bonuses


def _blended(
    rewards: Rewards, teams: Teams, strengths: Mapping[str, float]
) -> dict[str, list[float]]:
    shaped: dict[str, list[float]] = {}
    for agent, values in rewards.items():
        teammates = [mate for mate in rewards if _same_team(mate, agent, teams)]
        strength = strengths[agent]
        shaped[agent] = [
            (1.0 - strength) * reward + strength * _mean_at(rewards, teammates, step)
            for step, reward in enumerate(values)
        ]
    return shaped


def _leaders(agents: Sequence[str], teams: Teams, leader: str | None) -> list[str]:
    if leader is not None and leader not in agents:
        raise ConfigError(f"mode.leader must be one of {', '.join(agents)}; got {leader!r}")
    firsts: list[str] = []
    for agent in agents if leader is None else (leader, *agents):
        if not any(_same_team(agent, first, teams) for first in firsts):
            firsts.append(agent)
    return firsts


def _same_team(one: str, other: str, teams: Teams) -> bool:
    return teams is None or teams[one] == teams[other]


def _mean_at(rewards: Rewards, agents: Iterable[str], step: int) -> float:
    there = (rewards[agent][step] for agent in agents if step < len(rewards[agent]))
    found = [reward for reward in there if not math.isnan(reward)]
    return math.fsum(found) / len(found) if found else 0.0


# Configuration.

Fraction = Annotated[float, Field(ge=0, le=1)]


class ModeSection(Section):
    """Base class of the settings of a reward mode, with formulas in docs/training/updates.md."""

    CHOICE: ClassVar = "name"


class CooperativeConfig(ModeSection):
    """Settings of the mode in which rewards are blended with the team's mean reward."""

    name: Literal["cooperative"] = "cooperative"
    """Reward mode (docs/training/updates.md)."""
    cooperation_strength: Fraction = 0.6
    """Weight of the team's mean in a cooperative reward, 0 to 1."""


class CompetitiveConfig(ModeSection):
    """Settings of the mode with a bonus for the rank of an agent's return."""

    name: Literal["competitive"] = "competitive"
    """Reward mode (docs/training/updates.md)."""
    competition_intensity: Annotated[float, Field(ge=0)] = 0.4
    """Scale of the rank bonus, in units of an episode's return."""


class MixedConfig(ModeSection):
    """Mixture of the cooperative and the competitive mode, with an adaptive balance."""

    name: Literal["mixed"] = "mixed"
    """Reward mode (docs/training/updates.md)."""
    cooperation_strength: Fraction = 0.6
    """Weight of the team's mean in a cooperative reward, 0 to 1."""
    competition_intensity: Annotated[float, Field(ge=0)] = 0.4
    """Scale of the rank bonus, in units of an episode's return."""


class HierarchicalConfig(ModeSection):
    """Settings of the mode with leaders, which speak first and receive the team's mean reward."""

    name: Literal["hierarchical"] = "hierarchical"
    """Reward mode (docs/training/updates.md)."""
    cooperation_strength: Fraction = 0.6
    """Weight of the team's mean in a cooperative reward, 0 to 1."""
    leader: str | None = None
    """Agent that leads its team; null chooses the first agent of each team."""


class PlainMode(ModeSection):
    """Modes without settings: `raw`, and `zero_sum`, the team's mean less the rivals' mean."""

    name: Literal["zero_sum", "raw"]
    """Reward mode (docs/training/updates.md)."""


ModeConfig = Annotated[
    CooperativeConfig | CompetitiveConfig | MixedConfig | HierarchicalConfig | PlainMode,
    Field(discriminator="name"),
    chosen_by("name", "mixed"),
]
