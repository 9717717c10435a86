"""Headline numbers of a run."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from srl_train.metrics.run_folder import RecordedRun, number_at

FOR_THE_OPTIMUM = ("cooperative", "hierarchical")
"""Modes that train for the mean of all rewards, which the optimum maximizes."""
WORTH_MENTION = 0.05
"""Smallest difference in the share of parse failures that the headline mentions."""
SIGNIFICANT = 2.0
"""Standard errors that a difference must exceed to be called a change."""


@dataclass(frozen=True)
class Change:
    """Difference in raw reward between two evaluations; every number may be NaN."""

    before: float
    after: float
    error: float
    """Standard error of the difference, for independent episodes."""
    learned: float
    """(after - before) / (optimum - before), if the mode trains for the optimum and the reward
    rose significantly."""
    learned_error: float
    """Standard error of `learned`."""
    unread: tuple[float, float]
    """Shares of parse failures in the two evaluations."""

    @property
    def beyond_chance(self) -> bool:
        """True if the difference is known to exceed SIGNIFICANT standard errors."""
        return abs(self.after - self.before) > SIGNIFICANT * self.error


@dataclass(frozen=True)
class Headline:
    """Start and end of a run; NaN for a number that was not measured."""

    start: float
    """Mean raw reward (per agent and step) over the first tenth of the rounds."""
    end: float
    """Mean raw reward over the last tenth of the rounds."""
    before: float
    """Mean raw reward in the evaluation before training."""
    after: float
    """Mean raw reward in the evaluation after training."""
    change: Change
    """Difference between the two evaluations."""
    position: float
    """`after` (or `end`) between uniform play (0) and the optimum (1), if the mode trains for
    it."""


def headline(run: RecordedRun) -> Headline:
    """Compute the run's headline."""
    start, end = edges(run.series("environment", "raw_reward"))
    before, after = (
        number_at(run.summary, "evaluation", when, "raw_reward") for when in ("before", "after")
    )
    reached = after if math.isfinite(after) else end
    evaluation = run.summary.get("evaluation") or {}
    return Headline(
        start=start,
        end=end,
        before=before,
        after=after,
        change=change(evaluation.get("before"), evaluation.get("after"), run.baselines, run.mode),
        position=position(reached, run.baselines) if run.mode in FOR_THE_OPTIMUM else math.nan,
    )


def change(before: Any, after: Any, baselines: Mapping[str, float], mode: str) -> Change:
    """Compare two results of `srl_train.evaluation.evaluate`."""
    was, now = (number_at(one, "raw_reward") for one in (before, after))
    errors = [number_at(one, "standard_error") for one in (before, after)]
    unread = number_at(before, "parse_failures"), number_at(after, "parse_failures")
    found = Change(was, now, math.hypot(*errors), math.nan, math.nan, unread)
    ahead = baselines.get("optimum", math.nan) - was
    if mode not in FOR_THE_OPTIMUM or not ahead > SIGNIFICANT * errors[0]:
        return found
    if not (found.beyond_chance and now > was):
        return found
    learned = (now - was) / ahead
    spread = math.hypot(errors[1], (1 - learned) * errors[0]) / ahead
    return dataclasses.replace(found, learned=learned, learned_error=spread)


def change_in_words(found: Change, baselines: Mapping[str, float], mode: str) -> list[str]:
    """Return the change as lines for a terminal."""
    lines = []
    moved = found.after - found.before
    if moved == 0:
        lines.append("the mean reward did not change")
    elif math.isfinite(found.error):
        by = f"by {abs(moved):.4f} (+- {found.error:.4f} standard error of the difference)"
        if found.beyond_chance:
            lines.append(f"it {'rose' if moved > 0 else 'fell'} {by}")
        else:
            lines.append(f"no change beyond chance: it moved {by}")
    was, now = found.unread
    if abs(now - was) > WORTH_MENTION:
        lines.append(
            f"unread answers {'rose' if now > was else 'fell'} from {was:.1%} to {now:.1%}"
        )
    if {"uniform", "optimum"} <= baselines.keys():
        uniform, optimum = baselines["uniform"], baselines["optimum"]
        known = f"uniform play earns {uniform:.4f}, the optimum is {optimum:.4f}"
        if mode not in FOR_THE_OPTIMUM:
            known += ", which is not what this mode trains for"
        elif math.isfinite(found.learned):
            known += (
                f": {way(found.learned, found.learned_error)} of the way there from "
                f"{found.before:.4f} was learned"
            )
        lines.append(known)
    return lines


def way(share: float, error: float) -> str:
    """Return the share of the way to the optimum and its standard error, at most 100%."""
    if share > 1:
        return f"100% (measured {share:.1%} +- {error:.1%}, the excess is noise)"
    return f"{share:.1%} (+- {error:.1%})"


def edges(values: Sequence[float]) -> tuple[float, float]:
    """Return the means over the first and the last tenth, without NaN."""
    tenth = max(1, len(values) // 10)
    return mean(values[:tenth]), mean(values[-tenth:])


def ends(run: RecordedRun, key: str) -> tuple[float, float]:
    """Return an environment number from both evaluations, else from the first and last rounds."""
    evaluated = tuple(number_at(run.summary, "evaluation", w, key) for w in ("before", "after"))
    if all(map(math.isfinite, evaluated)):
        return evaluated[0], evaluated[1]
    return edges(run.series("environment", key))


def mean(values: Sequence[float]) -> float:
    """Return the mean of the finite values, or NaN."""
    finite = [value for value in values if math.isfinite(value)]
    return math.fsum(finite) / len(finite) if finite else math.nan


def position(value: float, baselines: Mapping[str, float]) -> float:
    """Return (value - uniform) / (optimum - uniform), or NaN if it is undefined."""
    uniform, optimum = (baselines.get(name, math.nan) for name in ("uniform", "optimum"))
    distance = optimum - uniform
    return (value - uniform) / distance if distance else math.nan


def in_words(run: RecordedRun) -> list[str]:
    """Return the headline as lines for a terminal."""
    head = headline(run)
    evaluated = math.isfinite(head.before) and math.isfinite(head.after)
    if evaluated:
        numbers = f"{head.before:.4f} -> {head.after:.4f} (evaluation before and after training)"
    elif math.isfinite(head.after):
        numbers = f"{head.after:.4f} (evaluation after training; there is none from before it)"
    elif math.isfinite(head.start) and math.isfinite(head.end):
        numbers = f"{head.start:.4f} -> {head.end:.4f} (first and last rounds)"
    else:
        return [f"{run.environment}: no reward is recorded yet"]
    lines = [f"warning: {line}" for line in run.warnings]
    lines.append(f"{run.environment}: mean raw reward {numbers}")
    if evaluated:
        lines += change_in_words(head.change, run.baselines, run.mode)
    elif math.isfinite(head.position):
        lines.append(
            f"it stands at {min(head.position, 1):.1%} between uniform play "
            f"({run.baselines['uniform']:.4f}) and the optimum ({run.baselines['optimum']:.4f})"
        )
    return lines
