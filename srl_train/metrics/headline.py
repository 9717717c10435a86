"""The few numbers a run comes down to."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from srl_train.metrics.run_folder import Run, number_at


@dataclass(frozen=True)
class Headline:
    """Start and end of a run. Every number may be NaN: it was not measured."""

    start: float
    """Mean raw reward (per seat and step) over the first tenth of the rounds."""
    end: float
    """The same over the last tenth."""
    before: float
    """Mean raw reward in the evaluation before training."""
    after: float
    """The same after training."""
    share: float
    """How far `after` (or `end`, where nothing was evaluated) stands on the way from uniform
    play (0) to the optimum (1); above 1 by luck only."""
    share_error: float
    """Standard error of `share`, from the evaluation's over its episodes."""


def headline(run: Run) -> Headline:
    """The run's headline."""
    start, end = edges(run.series("environment", "raw_reward"))
    before, after = (
        number_at(run.summary, "evaluation", when, "raw_reward") for when in ("before", "after")
    )
    reached = after if math.isfinite(after) else end
    error = number_at(run.summary, "evaluation", "after", "standard_error")
    way = run.baselines.get("optimum", math.nan) - run.baselines.get("uniform", math.nan)
    return Headline(
        start=start,
        end=end,
        before=before,
        after=after,
        share=share_of_the_way(reached, run.baselines),
        share_error=error / way if way else math.nan,
    )


def edges(values: Sequence[float]) -> tuple[float, float]:
    """Means over the first and the last tenth (at least one value each); NaN left out."""
    tenth = max(1, len(values) // 10)
    return mean(values[:tenth]), mean(values[-tenth:])


def ends(run: Run, key: str) -> tuple[float, float]:
    """An environment number at the start and the end of the run: the evaluations' where both were
    made, else the edges of the rounds."""
    evaluated = tuple(number_at(run.summary, "evaluation", w, key) for w in ("before", "after"))
    if all(map(math.isfinite, evaluated)):
        return evaluated[0], evaluated[1]
    return edges(run.series("environment", key))


def mean(values: Sequence[float]) -> float:
    """The mean of the finite values; NaN where there is none."""
    finite = [value for value in values if math.isfinite(value)]
    return math.fsum(finite) / len(finite) if finite else math.nan


def share_of_the_way(value: float, baselines: Mapping[str, float]) -> float:
    """(value - uniform) / (optimum - uniform); NaN where a baseline is missing or both are one."""
    uniform, optimum = (baselines.get(name, math.nan) for name in ("uniform", "optimum"))
    way = optimum - uniform
    return (value - uniform) / way if way else math.nan


def in_words(run: Run) -> list[str]:
    """The headline as lines for a terminal."""
    head = headline(run)
    if math.isfinite(head.before) and math.isfinite(head.after):
        told = f"{head.before:.4f} -> {head.after:.4f} (evaluation before and after training)"
    elif math.isfinite(head.after):  # the share is of this number, so no other stands beside it
        told = f"{head.after:.4f} (evaluation after training; there is none from before it)"
    elif math.isfinite(head.start) and math.isfinite(head.end):
        told = f"{head.start:.4f} -> {head.end:.4f} (first and last rounds)"
    else:
        return [f"{run.environment}: no reward is recorded yet"]
    lines = [f"{run.environment}: mean raw reward {told}"]
    if math.isfinite(head.share):
        lines.append(
            f"{100 * head.share:.1f} % of the way from uniform play "
            f"({run.baselines['uniform']:.4f}) to the optimum ({run.baselines['optimum']:.4f})"
        )
    return lines
