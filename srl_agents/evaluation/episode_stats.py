"""Statistics of recorded episodes: cooperation, parse failures, success and winners."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from srl_agents.episode import AgentStep, Episode

LONG_AFTER = 2**31
"""Episode number of evaluations, at which warm-ups and ramps have their final values."""


def cooperation_rate(steps: Iterable[AgentStep]) -> float | None:
    """Return the fraction of odd (cooperative) actions.

    Only steps with "cooperation_ratio" in their info count; the result is None without any.
    """
    actions = [step.decision.action for step in steps if "cooperation_ratio" in step.info]
    return sum(int(action) % 2 for action in actions) / len(actions) if actions else None


def parse_failures(steps: Iterable[AgentStep]) -> float:
    """Return the fraction of text answers that could not be parsed; 0 without any."""
    answers = [step.decision for step in steps if step.decision.text is not None]
    unread = sum(answer.parse_failure is not None for answer in answers)
    return unread / len(answers) if answers else 0.0


def success(episodes: Iterable[Episode]) -> float | None:
    """Return the fraction of True among "success" in all agents' last infos; None without any."""
    ends = [
        bool(end["success"])
        for episode in episodes
        for end in map(episode.end_of, episode.seats)
        if "success" in end
    ]
    return sum(ends) / len(ends) if ends else None


def environment_of(episode: Episode) -> str | None:
    """Return the label of the environment that multitask_v0 chose, or None without one."""
    label = episode.turns[0][0].info.get("environment") if episode.turns else None
    return None if label is None else str(label)


def by_environment(episodes: Iterable[Episode]) -> dict[str, dict[str, Any]]:
    """Return label -> statistics of the episodes of this environment of multitask_v0.

    The keys are "episodes" (number), "raw_reward" (mean per agent and step), "raw_return" (mean per
    agent and episode), "success" and "parse_failures" (see these functions). Episodes without a
    label (`environment_of`) are ignored.
    """
    groups: dict[str, list[Episode]] = {}
    for episode in episodes:
        label = environment_of(episode)
        if label is not None:
            groups.setdefault(label, []).append(episode)
    found = {}
    for label, own in sorted(groups.items()):
        steps = [step for episode in own for turn in episode.turns for step in turn]
        found[label] = {
            "episodes": len(own),
            "raw_reward": mean([step.reward for step in steps]),
            "raw_return": mean([total for one in own for total in one.returns().values()]),
            "success": success(own),
            "parse_failures": parse_failures(steps),
        }
    return found


def winner(episode: Episode) -> str | None:
    """Return the last step's "winner" (an agent, team, side or "draw"), or None without one."""
    last = episode.turns[-1] if episode.turns else ()
    return next((step.info["winner"] for step in last if "winner" in step.info), None)


def mean(values: Sequence[float]) -> float | None:
    """Return the mean, or None without values."""
    return sum(values) / len(values) if values else None
