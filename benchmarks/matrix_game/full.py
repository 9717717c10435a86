"""All settings of the benchmark, and whether OurMethodPolicy does what it should in each."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from benchmarks.records import Check
from srl_agents.evaluation.matrix_game import cross_play

COOP_LEVELS = (0.2, 0.5, 0.55, 0.6, 0.8)
DIFFICULTIES = (0.3, 0.6)

SELF_PLAY_SHARE = 0.995  # of the oracle, on average
SELF_PLAY_WORST = 0.005  # reward per round that the worst run may stay under the oracle
RESPONSE_SHARE = 0.99  # of what could be earned with each partner, on average


def settings(progress: Callable[[str], None]) -> Iterator[tuple[float, float]]:
    """Every (cooperation level, difficulty), told before it is gone through."""
    for difficulty, level in itertools.product(DIFFICULTIES, COOP_LEVELS):
        progress(f"cooperation level {level:g}, difficulty {difficulty:g}")
        yield level, difficulty


def checks(result: Mapping[str, Any]) -> list[Check]:
    """What is asked of OUR, measured in one setting's result (see `cross_play`)."""
    oracle, own = result["oracle"], result["metrics"]["OUR"]
    mirror = result["self_play"]["OUR"]
    value = (own["avg_A"] + own["avg_B"]) / 2
    partners = [name for name in result["references"] if name != "OUR"]
    asked = {
        "self-play, share of the oracle": (value / oracle, SELF_PLAY_SHARE),
        "self-play, worst run minus oracle": (mirror["worst"] - oracle, -SELF_PLAY_WORST),
        "self-play, runs in the worse agreement (negated)": (
            -float(mirror["runs_in_the_worse_agreement"]),
            0.0,
        ),
    }
    for name in partners:
        best = result["references"][name]
        share = result["cross_play"]["OUR"][name]["avg"] / best
        asked[f"with {name}, share of the best"] = (share, RESPONSE_SHARE)
    return [
        Check(f"{about}, at least {least:g}", measured >= least, f"{measured:.4f}")
        for about, (measured, least) in asked.items()
    ]


def all_settings(
    *,
    runs: int,
    episodes: int,
    horizon: int,
    seed: int,
    progress: Callable[[str], None],
) -> list[dict[str, Any]]:
    """`cross_play` at every level and difficulty, with its "params" and its "checks"."""
    lengths = {"runs": runs, "episodes": episodes, "horizon": horizon, "seed": seed}
    results = []
    for level, difficulty in settings(progress):
        params: dict[str, Any] = {**lengths, "coop_level": level, "difficulty": difficulty}
        result = {"params": params, **cross_play(**params)}
        results.append({**result, "checks": [vars(check) for check in checks(result)]})
    return results
