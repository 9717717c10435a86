"""Headline numbers of a run."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from srl_extensions.pages.document import Card
from srl_extensions.pages.run_folder import RecordedRun
from srl_train.metrics.tables import number, share

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


def headline(run: RecordedRun) -> Headline:
    """Compute the headline numbers of a run."""
    before, after = (run.evaluated(when, "raw_reward") for when in ("before", "after"))
    errors = [run.evaluated(when, "standard_error") for when in ("before", "after")]
    error, learned = math.hypot(*errors), math.nan
    if run.mode in FOR_THE_OPTIMUM:
        ahead = run.baselines.get("optimum", math.nan) - before
        if ahead > SIGNIFICANT * errors[0] and after - before > SIGNIFICANT * error:
            learned = min((after - before) / ahead, 1.0)  # A larger value is noise.
    return Headline(before, after, error, learned)


def ends(run: RecordedRun, key: str) -> tuple[float, float]:
    """Return a number of the environment at the start and at the end of training.

    The numbers are those of the evaluations before and after training if both have `key`, else the
    means over the first and the last tenth of the rounds.
    """
    before, after = run.evaluated("before", key), run.evaluated("after", key)
    if math.isfinite(before) and math.isfinite(after):
        return before, after
    return run.edges(key)


def cards(run: RecordedRun) -> list[Card]:
    """Return the headline as cards: reward, share of the optimum, cooperation, and failures."""
    head = headline(run)
    moved = head.after - head.before
    how = "first → last rounds"
    change = ""
    if math.isfinite(moved):
        how = "evaluations before → after training"
        change = f" · change {number(moved)}, standard error {number(head.error, 2)}"
        change += ", may be chance" if abs(moved) <= SIGNIFICANT * head.error else ""
    known = " · ".join(f"{name} {number(value)}" for name, value in run.baselines.items())
    closed = known or "no baselines"
    if known and run.mode not in FOR_THE_OPTIMUM:
        closed += " · not the objective of this mode"
    found = [
        ("Raw reward per agent and step", _change(run, "raw_reward", number), how + change),
        ("Gap to the optimum closed", share(head.learned), closed),
        ("Cooperation rate", _change(run, "cooperation_rate", share), "start → end of training"),
        ("Parse failures", _change(run, "parse_failures", share),
         "share of answers without a legal action"),
    ]  # fmt: skip
    if failed := run.total("environment", "failed_episodes"):
        played = run.total("environment", "episodes")
        found.append(("Failed episodes", f"{failed:.0f} of {played:.0f}", "not used in training"))
    return found


def _change(run: RecordedRun, key: str, written: Callable[[float], str]) -> str:
    return " → ".join(map(written, ends(run, key)))
