"""Scores of models relative to each other in a round, for update strategies."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence

from srl_agents.episode import Episode

CERTAIN = 100.0
"""Largest absolute score: a difference without any spread has no standard error."""
_ROUNDING = 1e-9  # relative difference of equal returns that floats alone can cause


def roles_of(env: object) -> dict[str, str]:
    """Return agent -> role of an environment; agents with the same role have comparable returns.

    A role is the environment's attribute `roles[agent]` if it exists. Otherwise it is "TEAM NAME",
    or "NAME" without teams, where NAME is the agent's name without digits at its end.
    """
    inner = getattr(env, "unwrapped", env)
    given: Mapping[str, str] = getattr(inner, "roles", None) or {}
    teams: Mapping[str, str] = getattr(inner, "teams", None) or {}
    agents: Sequence[str] = inner.possible_agents  # type: ignore[attr-defined]
    return {
        agent: given.get(agent) or f"{teams.get(agent, '')} {re.sub(r'[0-9]+$', '', agent)}".strip()
        for agent in agents
    }


def model_scores(
    episodes: Sequence[Episode], models: Collection[str], roles: Mapping[str, str]
) -> dict[str, float]:
    """Return model -> its mean excess return divided by the standard error, for `models`.

    The excess in an episode is the mean, over the model's agents, of the raw return minus the mean
    return in this episode of all agents with the same role that `models` play, itself included.
    `roles` is agent -> role. The score is from -CERTAIN to CERTAIN, and 0 for a model that shares
    no role or has one episode. Models without episodes are missing. No episode may have failed. The
    standard error is the larger one of that over episodes, and that over environment seeds.
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
        by_model: dict[str, list[float]] = {}
        for agent, value in returns.items():
            by_model.setdefault(episode.seats[agent], []).append(value - means[roles[agent]])
        for model, values in by_model.items():
            found = math.fsum(values) / len(values)
            excess.setdefault(model, {}).setdefault(episode.seed, []).append(found)
    return {
        model: _in_standard_errors(list(starts.values()), _ROUNDING * greatest)
        for model, starts in excess.items()
    }


def _in_standard_errors(starts: Sequence[Sequence[float]], nothing: float) -> float:
    every = [value for values in starts for value in values]
    means = [math.fsum(values) / len(values) for values in starts]
    mean = math.fsum(every) / len(every)
    if len(every) < 2 or abs(mean) <= nothing:
        return 0.0
    error = max(_standard_error(every), _standard_error(means))
    if error <= abs(mean) / CERTAIN:
        return math.copysign(CERTAIN, mean)
    return mean / error


def _standard_error(values: Sequence[float]) -> float:
    if len(values) < 2:
        return 0.0
    mean = math.fsum(values) / len(values)
    squares = math.fsum((value - mean) ** 2 for value in values)
    return math.sqrt(squares / (len(values) - 1) / len(values))
