"""Headline numbers of a run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from srl_extensions.pages.run_folder import RecordedRun, number_at

FOR_THE_OPTIMUM = ("cooperative", "hierarchical")
"""Modes that train for the mean of all rewards, which the optimum maximizes."""
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
    """(after - before) / (optimum - before), at most 1, if the mode trains for the optimum and
    the reward rose significantly."""
    learned_error: float


@dataclass(frozen=True)
class Headline:
    """Start and end of a run, in mean raw reward per agent and step; NaN if not measured."""

    start: float
    """Mean over the first tenth of the rounds."""
    end: float
    """Mean over the last tenth of the rounds."""
    change: Change
    """Difference between the evaluations before and after training."""
    position: float
    """End between uniform play (0) and the optimum (at most 1), if the mode trains for it."""


def headline(run: RecordedRun) -> Headline:
    """Compute the run's headline."""
    start, end = run.edges("raw_reward")
    evaluation = run.summary.get("evaluation") or {}
    found = change(evaluation.get("before"), evaluation.get("after"), run.baselines, run.mode)
    place = run.position(found.after if math.isfinite(found.after) else end)
    return Headline(start, end, found, min(place, 1) if run.mode in FOR_THE_OPTIMUM else math.nan)


def change(before: Any, after: Any, baselines: Mapping[str, float], mode: str) -> Change:
    """Compare two results of `srl_train.evaluation.evaluate`."""
    was, now = (number_at(one, "raw_reward") for one in (before, after))
    errors = [number_at(one, "standard_error") for one in (before, after)]
    error, learned, spread = math.hypot(*errors), math.nan, math.nan
    ahead = baselines.get("optimum", math.nan) - was
    below = mode in FOR_THE_OPTIMUM and ahead > SIGNIFICANT * errors[0]
    if below and now - was > SIGNIFICANT * error:
        learned = (now - was) / ahead
        spread = math.hypot(errors[1], (1 - learned) * errors[0]) / ahead
        learned = min(learned, 1.0)  # More than the optimum is noise.
    return Change(was, now, error, learned, spread)


def ends(run: RecordedRun, key: str) -> tuple[float, float]:
    """Return an environment number from both evaluations, else from the first and last rounds."""
    before, after = run.evaluated("before", key), run.evaluated("after", key)
    if math.isfinite(before) and math.isfinite(after):
        return before, after
    return run.edges(key)


def in_words(run: RecordedRun) -> list[str]:
    """Return the headline as lines for a terminal."""
    head = headline(run)
    found = head.change
    evaluated = math.isfinite(found.before) and math.isfinite(found.after)
    if evaluated:
        numbers = f"{found.before:.4f} -> {found.after:.4f} (evaluation before and after training)"
    elif math.isfinite(head.start):
        numbers = f"{head.start:.4f} -> {head.end:.4f} (first and last rounds)"
    else:
        return [f"{run.environment}: no reward is recorded yet"]
    lines = [f"warning: {line}" for line in run.warnings]
    lines.append(f"{run.environment}: mean raw reward {numbers}")
    moved = found.after - found.before
    if moved == 0:
        lines.append("the mean reward did not change")
    elif evaluated and math.isfinite(found.error):
        by = f"by {abs(moved):.4f} (+- {found.error:.4f} standard error of the difference)"
        if abs(moved) > SIGNIFICANT * found.error:
            lines.append(f"it {'rose' if moved > 0 else 'fell'} {by}")
        else:
            lines.append(f"no change beyond chance: it moved {by}")
    if {"uniform", "optimum"} <= run.baselines.keys():
        known = "uniform play earns {uniform:.4f}, the optimum is {optimum:.4f}".format(
            **run.baselines
        )
        if run.mode not in FOR_THE_OPTIMUM:
            known += ", which is not what this mode trains for"
        elif math.isfinite(found.learned):
            known += (
                f": {found.learned:.1%} (+- {found.learned_error:.1%}) of the way there from "
                f"{found.before:.4f} was learned"
            )
        lines.append(known)
    return lines
