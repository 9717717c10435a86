"""The criteria of the general suite: scores, their intervals, and what is asked of OUR.

After Powers, Shoham and Vu (2007), "A general criterion and an algorithmic framework for learning
in multi-agent systems": targeted optimality, auto-compatibility (self-play) and safety.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.matrix_game.general.suite import OUR
from benchmarks.records import Check, table
from srl_extensions.judging.aggregates import Estimate, Scores, interquartile_mean, mean

NEAR = 0.98  # of the best method, in every criterion's mean
SAFE = 0.95  # of the maximin value, with every partner in every game
FAIR = 0.97  # of the fair outcome in self-play
OUT_OF_STEP = "OUR, out of step"

Criteria = Mapping[str, Mapping[str, Scores]]
"""Criterion -> method -> partner -> scores by game and run."""


def criteria(found: Mapping[str, Any], half: NDArray[np.bool_]) -> Criteria:
    """What `play_all` found, as scores of one half of the games (a mask)."""
    scripted = [*found["memory_one"], *found["switching"]]
    earned = {
        method: {name: np.array(by_game)[half] for name, by_game in partners.items()}
        for method, partners in found["earned"].items()
    }
    best = {name: np.array(found["best"][name])[half, None] for name in scripted}
    sure = np.array(found["maximin"])[half, None]
    fair = np.array(found["fair"])[half, None]
    return {
        "targeted optimality": {
            method: _flat({name: rows[name] / best[name] for name in found["memory_one"]})
            for method, rows in earned.items()
        },
        "switching partners": {
            method: _flat({name: rows[name] / best[name] for name in found["switching"]})
            for method, rows in earned.items()
        },
        "safety": {
            # One score for a game with a partner: the mean of its runs over the maximin value.
            method: {name: (scores / sure).mean(axis=1).tolist() for name, scores in rows.items()}
            for method, rows in earned.items()
        },
        "self-play": {
            method: _flat({"itself": (np.array(pairs)[half] / fair).min(axis=2)})
            for method, pairs in found["self_play"].items()
        },
        "everything": {method: _flat(rows) for method, rows in earned.items()},
    }


def checks(found: Mapping[str, Any]) -> list[Check]:
    """What is asked of OUR in games of two actions, on the held half."""
    scores = criteria(found, np.array(found["held"]))
    seen = []
    for criterion, methods in scores.items():
        means = {method: _mean(own) for method, own in methods.items()}
        best = max(means, key=means.__getitem__)
        seen.append(
            Check(
                f"{criterion}: mean at least {NEAR:g} of the best method's",
                means[OUR] >= NEAR * means[best],
                f"{means[OUR]:.4f}, best {best} {means[best]:.4f}",
            )
        )
    lowest = _lowest(scores["safety"][OUR])
    seen.append(Check(f"safety: never below {SAFE:g} of maximin", lowest >= SAFE, f"{lowest:.4f}"))
    for method in (OUR, OUT_OF_STEP):
        value = _mean(scores["self-play"][method])
        about = f"self-play of {method}: mean at least {FAIR:g} of the fair outcome"
        seen.append(Check(about, value >= FAIR, f"{value:.4f}"))
    return seen


def tables(results: Mapping[str, Any], seed: int) -> str:
    """Every criterion's table, for games of two and of three actions, in Markdown."""
    parts = [
        "chosen on the development half: "
        + ", ".join(f"{name} {value:g}" for name, value in results["tuned"].items())
    ]
    for name, found in results.items():
        if name in ("tuned", "checks"):
            continue
        held = np.array(found["held"])
        parts.append(f"## Games of {name}: {held.sum()} held, {(~held).sum()} development")
        halves = {"held": criteria(found, held), "development": criteria(found, ~held)}
        for criterion in halves["held"]:
            parts.append(f"### {criterion}\n\n{_table(criterion, halves, seed)}")
        parts.append(f"### by partner, held half: mean reward per round\n\n{_by_partner(halves)}")
    parts.append("\n".join(f"- {Check(**check)}" for check in results["checks"]))
    return "\n\n".join(parts)


def _table(criterion: str, halves: Mapping[str, Criteria], seed: int) -> str:
    heading = ["", "held: mean", "held: interquartile mean", "held: lowest", "development: mean"]
    rows = []
    for method, own in halves["held"][criterion].items():
        development = halves["development"][criterion][method]
        rows.append(
            [
                method,
                _shown(mean(own, seed)),
                _shown(interquartile_mean(own, seed)),
                f"{_lowest(own):.3f}",
                f"{_mean(development):.4f}",
            ]
        )
    return table(heading, rows)


def _by_partner(halves: Mapping[str, Criteria]) -> str:
    everything = halves["held"]["everything"]
    partners = list(everything[OUR])
    rows = [
        [partner, *(f"{np.mean(own[partner]):.3f}" for own in everything.values())]
        for partner in partners
    ]
    return table(["with", *everything], rows)


def _shown(estimate: Estimate) -> str:
    if estimate.interval is None:
        return f"{estimate.value:.4f}"
    low, high = estimate.interval
    return f"{estimate.value:.4f} [{low:.4f}, {high:.4f}]"


def _flat(scores: Mapping[str, NDArray[np.float64]]) -> Scores:
    return {name: values.ravel().tolist() for name, values in scores.items()}


def _mean(scores: Scores) -> float:
    return float(np.mean([np.mean(own) for own in scores.values()]))


def _lowest(scores: Scores) -> float:
    return min(min(own) for own in scores.values())
