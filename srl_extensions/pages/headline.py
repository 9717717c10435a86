"""Headline numbers of a run."""

from __future__ import annotations

import math
from dataclasses import dataclass

from srl_extensions.pages.run_folder import RecordedRun

FOR_THE_OPTIMUM = ("cooperative", "hierarchical")
"""Modes that train for the mean of all rewards, which the optimum maximizes."""
SIGNIFICANT = 2.0
"""Number of standard errors above which a difference is reported as a change."""


@dataclass(frozen=True)
class Headline:
    """Raw reward per agent and step, compared with the baselines; NaN if not measured."""

    before: float
    """Reward of the evaluation before training."""
    after: float
    """Reward of the evaluation after training."""
    error: float
    """Standard error of `after - before`, for independent episodes."""
    learned: float
    """(after - before) / (optimum - before), at most 1. NaN if the mode does not train for the
    optimum or the reward did not rise significantly."""
    learned_error: float
    """Standard error of `learned`."""
    position: float
    """Reward at the end on a scale from uniform play (0) to the optimum (1), at most 1. NaN if the
    mode does not train for the optimum."""


def headline(run: RecordedRun) -> Headline:
    """Compute the headline numbers of a run."""
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
            learned = min(learned, 1.0)  # A larger value is noise.
    return Headline(before, after, error, learned, spread, place)


def ends(run: RecordedRun, key: str) -> tuple[float, float]:
    """Return a number of the environment at the start and at the end of training.

    The numbers are those of the evaluations before and after training if both have `key`, else the
    means over the first and the last tenth of the rounds.
    """
    before, after = run.evaluated("before", key), run.evaluated("after", key)
    if math.isfinite(before) and math.isfinite(after):
        return before, after
    return run.edges(key)


def in_words(run: RecordedRun) -> list[str]:
    """Return the headline as lines of text for a terminal, after the warnings of the run."""
    head, (start, end) = headline(run), ends(run, "raw_reward")
    moved = head.after - head.before
    if not math.isfinite(start):
        return [f"{run.environment}: no reward is recorded yet"]
    how = "evaluated before and after training" if math.isfinite(moved) else "first and last rounds"
    lines = [f"warning: {line}" for line in run.warnings]
    change = f"{start:.4f} -> {end:.4f}"
    lines.append(f"{run.environment}: raw reward per agent and step {change} ({how})")
    by = f"{abs(moved):.4f} (standard error {head.error:.4f})"
    if moved == 0:
        lines.append("The mean reward did not change.")
    elif abs(moved) > SIGNIFICANT * head.error:
        lines.append(f"The reward {'rose' if moved > 0 else 'fell'} by {by}.")
    elif math.isfinite(moved + head.error):
        lines.append(f"The reward changed by {by}, which may be chance.")
    if {"uniform", "optimum"} <= run.baselines.keys():
        uniform, optimum = run.baselines["uniform"], run.baselines["optimum"]
        known = f"Uniform random play earns {uniform:.4f}, the optimum is {optimum:.4f}"
        if run.mode not in FOR_THE_OPTIMUM:
            known += ", which is not the objective of this mode"
        elif math.isfinite(head.learned):
            known += (
                f": training closed {head.learned:.1%} of the gap (standard error "
                f"{head.learned_error:.1%})"
            )
        lines.append(f"{known}.")
    failures = ends(run, "parse_failures")
    if round(failures[0], 3) != round(failures[1], 3) and math.isfinite(sum(failures)):
        lines.append("Parse failures: {:.1%} -> {:.1%} of the answers.".format(*failures))
    return lines
