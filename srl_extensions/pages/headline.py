"""Headline numbers of a run."""

from __future__ import annotations

import math
from dataclasses import dataclass

from srl_extensions.pages.run_folder import RecordedRun

FOR_THE_OPTIMUM = ("cooperative", "hierarchical")
"""Modes that train for the mean of all rewards, which the optimum maximizes."""
SIGNIFICANT = 2.0
"""Standard errors that a difference must exceed to be called a change."""


@dataclass(frozen=True)
class Headline:
    """Raw reward per agent and step before and after training; NaN for what was not measured."""

    before: float
    after: float
    error: float
    """Standard error of the difference, for independent episodes."""
    learned: float
    """(after - before) / (optimum - before), at most 1, if the mode trains for the optimum and
    the reward rose significantly."""
    learned_error: float
    position: float
    """`after`, or the mean of the last rounds, between uniform play (0) and the optimum (at most
    1), if the mode trains for it."""


def headline(run: RecordedRun) -> Headline:
    """Compute the run's headline."""
    before, after = (run.evaluated(when, "raw_reward") for when in ("before", "after"))
    errors = [run.evaluated(when, "standard_error") for when in ("before", "after")]
    error, learned, spread, place = math.hypot(*errors), math.nan, math.nan, math.nan
    if run.mode in FOR_THE_OPTIMUM:
        reached = after if math.isfinite(after) else run.edges("raw_reward")[1]
        place = min(run.position(reached), 1)
        ahead = run.baselines.get("optimum", math.nan) - before
        if ahead > SIGNIFICANT * errors[0] and after - before > SIGNIFICANT * error:
            learned = (after - before) / ahead
            spread = math.hypot(errors[1], (1 - learned) * errors[0]) / ahead
            learned = min(learned, 1.0)  # More than the optimum is noise.
    return Headline(before, after, error, learned, spread, place)


def ends(run: RecordedRun, key: str) -> tuple[float, float]:
    """Return an environment number from both evaluations, else from the first and last rounds."""
    before, after = run.evaluated("before", key), run.evaluated("after", key)
    if math.isfinite(before) and math.isfinite(after):
        return before, after
    return run.edges(key)


def in_words(run: RecordedRun) -> list[str]:
    """Return the headline as lines for a terminal."""
    head, (start, end) = headline(run), ends(run, "raw_reward")
    moved = head.after - head.before
    evaluated = math.isfinite(moved)
    if not math.isfinite(start):
        return [f"{run.environment}: no reward is recorded yet"]
    how = "evaluation before and after training" if evaluated else "first and last rounds"
    lines = [f"warning: {line}" for line in run.warnings]
    lines.append(f"{run.environment}: mean raw reward {start:.4f} -> {end:.4f} ({how})")
    if moved == 0:
        lines.append("the mean reward did not change")
    elif math.isfinite(moved + head.error):
        by = f"by {abs(moved):.4f} (+- {head.error:.4f} standard error of the difference)"
        if abs(moved) > SIGNIFICANT * head.error:
            lines.append(f"it {'rose' if moved > 0 else 'fell'} {by}")
        else:
            lines.append(f"no change beyond chance: it moved {by}")
    if {"uniform", "optimum"} <= run.baselines.keys():
        known = "uniform play earns {uniform:.4f}, the optimum is {optimum:.4f}".format(
            **run.baselines
        )
        if run.mode not in FOR_THE_OPTIMUM:
            known += ", which is not what this mode trains for"
        elif math.isfinite(head.learned):
            known += (
                f": {head.learned:.1%} (+- {head.learned_error:.1%}) of the way there from "
                f"{head.before:.4f} was learned"
            )
        lines.append(known)
    return lines
