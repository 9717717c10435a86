"""OurMethodPolicy without one of its parts at a time: what is each part good for?"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.matrix_game.full import settings
from srl_agents.baselines.our_method import TYPES, OurMethodRuns
from srl_agents.evaluation.matrix_game import (
    REPORTED,
    SCRIPTED,
    Outcome,
    Player,
    Seeds,
    best_response,
    maker,
    oracle,
    payoffs,
    play_match,
    runs_in_the_worse_agreement,
    tuned_rate,
)

VERSIONS: Mapping[str, tuple[str, ...]] = {
    "OUR": TYPES,
    "without the handshake": tuple(kind for kind in TYPES if kind != "own kind"),
    "without learners": tuple(kind for kind in TYPES if kind != "learner"),
    "without partners that reply": tuple(
        kind for kind in TYPES if kind not in ("conditional", "reactive")
    ),
}
"""Version -> the kinds of partner it thinks possible."""
PARTNERS = ("AC", "AP", "TFT", "CONTRARY", "RANDOM_0.3", "RANDOM_0.5", "PG", "PG_TUNED")


def without_parts(
    *,
    runs: int,
    episodes: int,
    horizon: int,
    seed: int,
    progress: Callable[[str], None],
) -> dict[str, dict[str, dict[str, float]]]:
    """Version -> partner ("itself" for its own kind) -> what it earns, as a share of the best.

    {"mean", "lowest"} over the settings of the full suite, of the means over the runs; for
    "itself" also "worst_run", the lowest share of a single run, and "locked", how many runs of
    all settings ended in the worse agreement.
    """
    lengths = {"runs": runs, "episodes": episodes, "horizon": horizon}
    found: dict[str, list[dict[str, float]]] = {version: [] for version in VERSIONS}
    for level, difficulty in settings(progress):
        for version, shares in _one_setting(payoffs(level, difficulty), lengths, seed):
            found[version].append(shares)
    return {version: _summary(shares) for version, shares in found.items()}


def _one_setting(
    payoff_22: NDArray[np.float64], lengths: Mapping[str, int], seed: int
) -> Iterator[tuple[str, dict[str, float]]]:
    """(version, its share of the best by partner, and "worst_run" and "locked" of its own kind)."""
    rate, _ = tuned_rate(payoff_22, seed=seed, **lengths)

    def play(a: Callable[[Seeds], Player], b: Callable[[Seeds], Player]) -> Outcome:
        return play_match(a, b, payoff_22, seed=(seed, REPORTED), **lengths)

    def earned(make: Callable[[Seeds], Player], partner: str) -> float:
        return float(play(make, maker(partner, rate)).of(0).mean())

    best = {
        name: best_response(payoff_22, SCRIPTED[name].chances, lengths["horizon"])
        if name in SCRIPTED
        else max(earned(maker(leader, rate), name) for leader in ("AC", "AP"))
        for name in PARTNERS
    }
    top = oracle(payoff_22)
    for version, types in VERSIONS.items():
        make = functools.partial(OurMethodRuns, types=types)
        mirror = play(make, make)
        yield (
            version,
            {
                "itself": float(mirror.rewards_2NE.mean()) / top,
                **{name: earned(make, name) / value for name, value in best.items()},
                "worst_run": float(mirror.rewards_2NE.mean(axis=2).min()) / top,
                "locked": runs_in_the_worse_agreement(mirror, payoff_22),
            },
        )


def _summary(shares: Sequence[Mapping[str, float]]) -> dict[str, dict[str, float]]:
    columns = {name: [one[name] for one in shares] for name in shares[0]}
    worst_run, locked = min(columns.pop("worst_run")), sum(columns.pop("locked"))
    summary = {
        name: {"mean": sum(values) / len(values), "lowest": min(values)}
        for name, values in columns.items()
    }
    summary["itself"] |= {"worst_run": worst_run, "locked": locked}
    return summary
