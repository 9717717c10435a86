"""Headline numbers of a run."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from srl_train.metrics.run_folder import Run, number_at

FOR_THE_OPTIMUM = ("cooperative", "hierarchical")
"""Modes that train for the mean of all rewards, which the optimum is one of; the others pay ranks,
and what they train for is another end."""
WORTH_MENTION = 0.05
"""Difference between two shares of unread answers from which the headline mentions it."""
SIGNIFICANT = 2.0
"""Standard errors that a difference must exceed to be called a change."""


@dataclass(frozen=True)
class Headline:
    """Start and end of a run. Every number may be NaN: it was not measured."""

    start: float
    """Mean raw reward (per agent and step) over the first tenth of the rounds."""
    end: float
    """The same over the last tenth."""
    before: float
    """Mean raw reward in the evaluation before training."""
    after: float
    """The same after training."""
    change: Change
    """From before to after, and what it is of the way to the optimum."""
    position: float
    """Where `after` (or `end`, where nothing was evaluated) stands between uniform play (0) and
    the optimum (1), where the mode trains for it; above 1 by luck only."""


@dataclass(frozen=True)
class Change:
    """What became of the raw reward between two evaluations; every number may be NaN."""

    before: float
    after: float
    error: float
    """Standard error of their difference, as if their games were independent."""
    learned: float
    """(after - before) / (optimum - before): where the mode trains for the optimum, which lay
    ahead, and the reward rose beyond chance."""
    learned_error: float
    """Standard error of `learned`."""
    unread: tuple[float, float]
    """Shares of answers without a legal action in the two evaluations."""

    @property
    def beyond_chance(self) -> bool:
        """Whether the difference is more than SIGNIFICANT standard errors; False where the error
        is not known."""
        return abs(self.after - self.before) > SIGNIFICANT * self.error


def headline(run: Run) -> Headline:
    """The run's headline."""
    start, end = edges(run.series("environment", "raw_reward"))
    before, after = (
        number_at(run.summary, "evaluation", when, "raw_reward") for when in ("before", "after")
    )
    reached = after if math.isfinite(after) else end
    told = (run.summary.get("evaluation") or {}).get
    return Headline(
        start=start,
        end=end,
        before=before,
        after=after,
        change=change(told("before"), told("after"), run.baselines, run.mode),
        position=position(reached, run.baselines) if run.mode in FOR_THE_OPTIMUM else math.nan,
    )


def change(before: Any, after: Any, baselines: Mapping[str, float], mode: str) -> Change:
    """From one evaluation (as `srl_train.evaluation.evaluate` gives it) to a later one."""
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
    """What came of the raw reward, and how far that is, as lines for a terminal."""
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
    if not {"uniform", "optimum"} <= baselines.keys():
        return lines
    known = f"uniform play earns {baselines['uniform']:.4f}, the optimum is "
    known += f"{baselines['optimum']:.4f}"
    if mode not in FOR_THE_OPTIMUM:
        known += ", which is not what this mode trains for"
    elif math.isfinite(found.learned):
        known += (
            f": {way(found.learned, found.learned_error)} of the way there from "
            f"{found.before:.4f} was learned"
        )
    return [*lines, known]


def way(share: float, error: float) -> str:
    """Return the share of the way to the optimum and its standard error, at most 100%."""
    if share > 1:
        return f"100% (measured {share:.1%} +- {error:.1%}, the excess is noise)"
    return f"{share:.1%} (+- {error:.1%})"


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


def position(value: float, baselines: Mapping[str, float]) -> float:
    """(value - uniform) / (optimum - uniform): 0 is uniform play, 1 the optimum; NaN where a
    baseline is missing or both are one."""
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
    warned = [f"warning: {line}" for line in run.warnings]
    lines = [*warned, f"{run.environment}: mean raw reward {told}"]
    if math.isfinite(head.before) and math.isfinite(head.after):
        return [*lines, *change_in_words(head.change, run.baselines, run.mode)]
    if math.isfinite(head.position):
        lines.append(
            f"it stands at {min(head.position, 1):.1%} between uniform play "
            f"({run.baselines['uniform']:.4f}) and the optimum ({run.baselines['optimum']:.4f})"
        )
    return lines
