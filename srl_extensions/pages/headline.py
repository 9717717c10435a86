"""Headline numbers of a run."""

from __future__ import annotations

import math
from collections.abc import Callable

from srl_extensions.pages.document import Card
from srl_extensions.pages.run_folder import RecordedRun
from srl_train.metrics.tables import MISSING, number, share

FOR_THE_OPTIMUM = ("cooperative", "hierarchical")
"""Modes that train for the mean of all rewards, which the optimum maximizes."""
SIGNIFICANT = 2.0
"""Number of standard errors above which a difference is reported as a change."""


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
    """Return the headline as cards: reward, share of the optimum, cooperation, and failures.

    Cards without a value are left out. The share of the optimum is (after - before) / (optimum -
    before) of the evaluations, at most 1; it has no value if the mode does not train for the
    optimum, or the reward did not rise significantly.
    """
    before, after = (run.evaluated(when, "raw_reward") for when in ("before", "after"))
    errors = [run.evaluated(when, "standard_error") for when in ("before", "after")]
    error, moved, learned = math.hypot(*errors), after - before, math.nan
    ahead = run.baselines.get("optimum", math.nan) - before
    rose = ahead > SIGNIFICANT * errors[0] and moved > SIGNIFICANT * error
    if rose and run.mode in FOR_THE_OPTIMUM:
        learned = min(moved / ahead, 1.0)  # A larger value is noise.
    how = "first → last rounds"
    if math.isfinite(moved):
        how = "evaluations before → after training"
        how += f" · change {number(moved)}, standard error {number(error, 2)}"
        how += ", may be chance" if abs(moved) <= SIGNIFICANT * error else ""
    known = " · ".join(f"{name} {number(value)}" for name, value in run.baselines.items())
    found = [
        ("Raw reward per agent and step", _change(run, "raw_reward", number), how),
        ("Gap to the optimum closed", share(learned), known),
        ("Cooperation rate", _change(run, "cooperation_rate", share), "start → end of training"),
        ("Parse failures", _change(run, "parse_failures", share),
         "share of answers without a legal action"),
    ]  # fmt: skip
    if failed := run.total("environment", "failed_episodes"):
        played = run.total("environment", "episodes")
        found.append(("Failed episodes", f"{failed:.0f} of {played:.0f}", "not used in training"))
    return [card for card in found if card[1] != MISSING]


def _change(run: RecordedRun, key: str, written: Callable[[float], str]) -> str:
    """Return a number at the start and at the end of training, or MISSING if there is neither."""
    both = ends(run, key)
    return " → ".join(map(written, both)) if any(map(math.isfinite, both)) else MISSING
