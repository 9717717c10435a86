"""Reward modes: how raw rewards become training rewards, and the order of play.

A mode is a few pure functions on one episode's raw rewards, `Mapping[agent, rewards per turn]`.
Agents come in the environment's own order everywhere; an agent that leaves early has fewer turns.
The environment's rewards are never changed in place, and are always logged beside the shaped ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from srl_train.errors import ConfigError

Rewards = Mapping[str, Sequence[float]]
"""Agent -> reward of each of its turns."""
Teams = Mapping[str, str] | None
"""Agent -> its team; None where the environment knows no teams, and all agents are one."""
State = Mapping[str, float]
"""What a mode remembers between rounds: numbers only, held by checkpoints."""

BALANCE_START = 0.5
"""Mixed mode: share of competition in the first round."""
BALANCE_RATE = 0.1
"""Mixed mode: share of the way that the balance moves per round."""


def no_state() -> State:
    """The state of a mode that remembers nothing."""
    return {}


def same_state(state: State, cooperation_rate: float | None) -> State:
    """The state as it came: `update` of a mode that remembers nothing."""
    return state


def all_at_once(agents: Sequence[str], teams: Teams) -> dict[str, tuple[str, ...]]:
    """No agent speaks before the others."""
    return {}


@dataclass(frozen=True)
class Mode:
    """One way of shaping rewards and seating models."""

    shape: Callable[[Rewards, Teams, State], dict[str, list[float]]]
    """(raw rewards of one episode, teams, state) -> shaped rewards, turn by turn."""
    init: Callable[[], State] = no_state
    """() -> the state before the first round."""
    update: Callable[[State, float | None], State] = same_state
    """(state, the round's cooperation rate, None where a game has none) -> the next state."""
    speaks_first: Callable[[Sequence[str], Teams], dict[str, tuple[str, ...]]] = all_at_once
    """(agents, teams) -> leader -> the agents that hear its words before they decide.

    Leaders decide first in every turn; empty where all decide at once.
    """


def raw() -> Mode:
    """Each agent learns from the environment's own rewards."""
    return Mode(lambda rewards, teams, state: {a: list(own) for a, own in rewards.items()})


def zero_sum() -> Mode:
    """Each turn's reward is the mean of the own team less the mean of its rivals.

    Rivals are the agents of all other teams; without teams, all others, and the own team is the
    agent alone. Both means are over the agents that have that turn; where no rival has it, theirs
    is 0. With two sides of equal size the rewards of every turn add up to 0, whatever the game
    pays: what both could gain together counts for nothing.
    """

    def shape(rewards: Rewards, teams: Teams, state: State) -> dict[str, list[float]]:
        shaped: dict[str, list[float]] = {}
        sides = teams or {agent: agent for agent in rewards}
        for agent, own in rewards.items():
            allies = [other for other in rewards if _same_team(other, agent, sides)]
            rivals = [other for other in rewards if other not in allies]
            shaped[agent] = [
                _mean_at(rewards, allies, turn) - _mean_at(rewards, rivals, turn)
                for turn in range(len(own))
            ]
        return shaped

    return Mode(shape)


def cooperative(cooperation_strength: float = 0.6) -> Mode:
    """Each turn's reward is (1 - k) * own + k * mean of the team, k the cooperation strength.

    The mean is over the agents of the own team (over all agents where there are no teams) that have
    that turn, the own agent included. k = 0 leaves rewards as they are, k = 1 gives the team one.
    """

    def shape(rewards: Rewards, teams: Teams, state: State) -> dict[str, list[float]]:
        return _blended(rewards, teams, dict.fromkeys(rewards, cooperation_strength))

    return Mode(shape)


def competitive(competition_intensity: float = 0.4) -> Mode:
    """Own rewards, and with the last turn a bonus of k * (n - rank) / n, k the intensity.

    Rank 1 is the agent with the highest raw return of the episode; agents with equal returns share
    the mean of their ranks, so that the bonuses' sum does not depend on ties. All n agents that
    played are ranked against each other, team mates too: the mode is each for itself.
    """

    def shape(rewards: Rewards, teams: Teams, state: State) -> dict[str, list[float]]:
        return _with_bonus(rewards, competition_intensity)

    return Mode(shape)


def mixed(cooperation_strength: float = 0.6, competition_intensity: float = 0.4) -> Mode:
    """(1 - b) * cooperative reward + b * competitive reward; the balance b moves with play.

    b starts at BALANCE_START and follows the cooperation rate of the rounds:
    b <- (1 - BALANCE_RATE) * b + BALANCE_RATE * rate. The more the models cooperate already, the
    more they compete, and the other way round. A round without a cooperation rate (a game without
    cooperate and compete) leaves b where it is. State: {"balance": b}, 0 <= b <= 1.
    """
    together = cooperative(cooperation_strength).shape
    against = competitive(competition_intensity).shape

    def shape(rewards: Rewards, teams: Teams, state: State) -> dict[str, list[float]]:
        balance = state["balance"]
        peace, war = together(rewards, teams, state), against(rewards, teams, state)
        return {
            agent: [
                (1.0 - balance) * kind + balance * harsh
                for kind, harsh in zip(peace[agent], war[agent], strict=True)
            ]
            for agent in rewards
        }

    def update(state: State, cooperation_rate: float | None) -> State:
        if cooperation_rate is None:
            return state
        balance = (1.0 - BALANCE_RATE) * state["balance"] + BALANCE_RATE * cooperation_rate
        return {"balance": min(max(balance, 0.0), 1.0)}

    return Mode(shape, lambda: {"balance": BALANCE_START}, update)


def hierarchical(cooperation_strength: float = 0.6, leader: str | None = None) -> Mode:
    """A leader per team speaks first; it is paid the team's mean, its followers the blend.

    Followers hear their leader's words before they decide, and their reward is the cooperative
    one. The leader of a team is its first agent; `leader` names another agent to lead its own team.
    Without teams all agents are one team. Raises ConfigError if `leader` is no agent.
    """

    def shape(rewards: Rewards, teams: Teams, state: State) -> dict[str, list[float]]:
        strengths = dict.fromkeys(rewards, cooperation_strength)
        strengths.update(dict.fromkeys(_leaders(tuple(rewards), teams, leader), 1.0))
        return _blended(rewards, teams, strengths)

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
"""Name -> the `mode` section of a configuration -> mode."""


def rank_bonuses(returns: Mapping[str, float]) -> dict[str, float]:
    """(n - rank) / n per agent; rank 1 is the highest return, equal ones share their mean rank."""
    count = len(returns)
    bonuses = {}
    for agent, own in returns.items():
        better = sum(other > own for other in returns.values())
        equal = sum(other == own for other in returns.values())
        rank = better + (equal + 1) / 2
        bonuses[agent] = (count - rank) / count
    return bonuses


def _blended(
    rewards: Rewards, teams: Teams, strengths: Mapping[str, float]
) -> dict[str, list[float]]:
    shaped: dict[str, list[float]] = {}
    for agent, own in rewards.items():
        mates = [mate for mate in rewards if _same_team(mate, agent, teams)]
        strength = strengths[agent]
        shaped[agent] = []
        for turn, reward in enumerate(own):
            mean = _mean_at(rewards, mates, turn)
            shaped[agent].append((1.0 - strength) * reward + strength * mean)
    return shaped


def _with_bonus(rewards: Rewards, intensity: float) -> dict[str, list[float]]:
    # fsum: agents with the same rewards in another order must tie.
    bonuses = rank_bonuses({agent: math.fsum(own) for agent, own in rewards.items() if len(own)})
    shaped = {agent: list(own) for agent, own in rewards.items()}
    for agent, bonus in bonuses.items():
        shaped[agent][-1] += intensity * bonus
    return shaped


def _leaders(agents: Sequence[str], teams: Teams, leader: str | None) -> list[str]:
    if leader is not None and leader not in agents:
        raise ConfigError(f"mode.leader is {leader!r}: the agents are {', '.join(agents)}")
    firsts: list[str] = []
    for agent in agents if leader is None else (leader, *agents):
        if not any(_same_team(agent, first, teams) for first in firsts):
            firsts.append(agent)
    return firsts


def _same_team(one: str, other: str, teams: Teams) -> bool:
    return teams is None or teams[one] == teams[other]


def _mean_at(rewards: Rewards, agents: Iterable[str], turn: int) -> float:
    """Of those agents that have that turn; 0 where none has."""
    found = [rewards[agent][turn] for agent in agents if turn < len(rewards[agent])]
    return math.fsum(found) / len(found) if found else 0.0
