"""Scores of models against each other in a round, for update strategies."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence

from srl_agents.episode import Episode

CERTAIN = 100.0
"""Scores end here: a difference without any spread has no standard error to be measured in."""
_ROUNDING = 1e-9  # of the greatest return: what floats alone may make two equal ones differ by


def roles_of(env: object) -> dict[str, str]:
    """Agent -> its role: agents of one role are in like places, so that their returns compare.

    An environment says so itself in `roles`. Otherwise agents have the role of those that are
    named alike but for the number, within their team where there are teams.
    """
    inner = getattr(env, "unwrapped", env)
    own: Mapping[str, str] = getattr(inner, "roles", None) or {}
    teams: Mapping[str, str] = getattr(inner, "teams", None) or {}
    agents: Sequence[str] = inner.possible_agents  # type: ignore[attr-defined]
    return {
        agent: own.get(agent) or f"{teams.get(agent, '')} {re.sub(r'[0-9]+$', '', agent)}".strip()
        for agent in agents
    }


def model_scores(
    episodes: Sequence[Episode], models: Collection[str], roles: Mapping[str, str]
) -> dict[str, float]:
    """Model -> mean excess return / its standard error, for those of `models` with an agent in a
    game.

    The excess of a game is the mean, over the model's agents, of the agent's raw return less the
    mean return of all agents of its role that models in training hold. Whoever holds the better
    place gains nothing by it, and what all agents of a game share is taken off. A model that
    shares no role with another one has a score of 0.

    The standard error is that of the mean over games, or over starts (means of the games from one
    start) where that is larger: what a start gives to one agent and not to another is luck too.
    Two starts tell little of such luck, more of them more. With fewer than two games nothing can
    be told, and all scores are 0.
    """
    excess: dict[str, dict[int, list[float]]] = {}
    greatest = 0.0
    for episode in episodes:
        returns = {a: r for a, r in episode.returns().items() if episode.seats[a] in models}
        greatest = max([greatest, *map(abs, returns.values())])
        alike: dict[str, list[float]] = {}
        for agent, value in returns.items():
            alike.setdefault(roles[agent], []).append(value)
        means = {role: math.fsum(values) / len(values) for role, values in alike.items()}
        own: dict[str, list[float]] = {}
        for agent, value in returns.items():
            own.setdefault(episode.seats[agent], []).append(value - means[roles[agent]])
        for model, values in own.items():
            found = math.fsum(values) / len(values)
            excess.setdefault(model, {}).setdefault(episode.seed, []).append(found)
    return {
        model: _in_standard_errors(list(starts.values()), _ROUNDING * greatest)
        for model, starts in excess.items()
    }


def start_returns(
    episodes: Sequence[Episode], models: Collection[str], roles: Mapping[str, str]
) -> dict[str, list[float]]:
    """Model -> for each start from which it played, the mean of its agents' raw returns, each less
    the mean over all these episodes of agents of its role that `models` hold.

    Whoever held the better place gains nothing by it; models in unlike games can be compared.
    """
    earned: dict[str, dict[int, list[tuple[str, float]]]] = {}
    alike: dict[str, list[float]] = {}
    for episode in episodes:
        for agent, value in episode.returns().items():
            if episode.seats[agent] in models:
                starts = earned.setdefault(episode.seats[agent], {})
                starts.setdefault(episode.seed, []).append((roles[agent], value))
                alike.setdefault(roles[agent], []).append(value)
    means = {role: math.fsum(values) / len(values) for role, values in alike.items()}
    return {
        model: [
            math.fsum(value - means[role] for role, value in own) / len(own)
            for own in starts.values()
        ]
        for model, starts in earned.items()
    }


def _in_standard_errors(starts: Sequence[Sequence[float]], nothing: float) -> float:
    """The mean of all numbers, over its standard error; numbers of one start lie together."""
    every = [value for own in starts for value in own]
    mean = math.fsum(every) / len(every)
    if len(every) < 2 or abs(mean) <= nothing:
        return 0.0
    error = max(
        standard_error(every), standard_error([math.fsum(own) / len(own) for own in starts])
    )
    if error <= abs(mean) / CERTAIN:
        return math.copysign(CERTAIN, mean)
    return mean / error


def standard_error(values: Sequence[float]) -> float:
    """The standard error of the mean of independent numbers; 0 of a single one."""
    if len(values) < 2:
        return 0.0
    mean = math.fsum(values) / len(values)
    squares = math.fsum((value - mean) ** 2 for value in values)
    return math.sqrt(squares / (len(values) - 1) / len(values))
