"""OurMethodPolicy without one of its parts at a time: what is each part good for?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.matrix_game.full import COOP_LEVELS, DIFFICULTIES
from srl_agents.baselines.our_method import TYPES, OurMethodRuns
from srl_agents.evaluation.matrix_game.cross_play import (
    REPORTED,
    SCRIPTED,
    maker,
    runs_in_the_worse_agreement,
    tuned_rate,
)
from srl_agents.evaluation.matrix_game.match import Outcome, Player, Seeds, play_match
from srl_agents.evaluation.matrix_game.values import best_response, oracle, payoffs

VERSIONS: Mapping[str, tuple[str, ...]] = {
    "OUR": TYPES,
    "without the protocol": tuple(kind for kind in TYPES if kind != "protocol"),
    "without learners": tuple(kind for kind in TYPES if kind != "learner"),
    "without reactive partners": tuple(kind for kind in TYPES if kind != "reactive"),
    "without a partner model": ("protocol",),
}
"""Version -> the kinds of partner it thinks possible."""
PARTNERS = ("AC", "AP", "TFT", "CONTRARY", "RANDOM_0.3", "RANDOM_0.5", "PG", "PG_TUNED")


def without_parts(
    *,
    runs: int,
    episodes: int,
    horizon: int,
    seed: int,
    progress: Callable[[str], None] = lambda line: None,
) -> dict[str, dict[str, dict[str, float]]]:
    """Version -> partner ("itself" for its own kind) -> what it earns, as a share of the best.

    {"mean", "lowest"} over the settings of the full suite, of the means over the runs; for
    "itself" also "worst_run", the lowest share of a single run, and "locked", how many runs of
    all settings ended in the worse agreement.
    """
    found: dict[str, list[_Shares]] = {version: [] for version in VERSIONS}
    for difficulty in DIFFICULTIES:
        for level in COOP_LEVELS:
            progress(f"cooperation level {level:g}, difficulty {difficulty:g}")
            game = _Game(payoffs(level, difficulty), runs, episodes, horizon, seed)
            best = game.best()
            for version, types in VERSIONS.items():
                found[version].append(game.shares(types, best))
    return {version: _summary(shares) for version, shares in found.items()}


class _Shares(NamedTuple):
    """What one version earns at one setting, as shares of the best."""

    by_partner: dict[str, float]
    worst_run: float
    locked: int


class _Game:
    """One setting."""

    def __init__(
        self, payoff_22: NDArray[np.float64], runs: int, episodes: int, horizon: int, seed: int
    ) -> None:
        self._payoff, self._seed, self._horizon = payoff_22, seed, horizon
        self._runs, self._episodes = runs, episodes
        self._rate, _ = tuned_rate(
            payoff_22, runs=runs, episodes=episodes, horizon=horizon, seed=seed
        )

    def best(self) -> dict[str, float]:
        """Partner -> what could be earned with it."""
        return {
            name: best_response(self._payoff, SCRIPTED[name].chances, self._horizon)
            if name in SCRIPTED
            else max(self._earned(maker(leader, self._rate), name) for leader in ("AC", "AP"))
            for name in PARTNERS
        }

    def shares(self, types: tuple[str, ...], best: Mapping[str, float]) -> _Shares:
        """What OUR with these types earns with its own kind and with everyone in `best`."""

        def make(seeds: Seeds) -> Player:
            return OurMethodRuns(len(seeds), types=types)

        mirror, top = self._play(make, make), oracle(self._payoff)
        shares = {"itself": float(mirror.rewards_2NE.mean()) / top}
        shares |= {name: self._earned(make, name) / value for name, value in best.items()}
        return _Shares(
            shares,
            float(mirror.rewards_2NE.mean(axis=2).min()) / top,
            runs_in_the_worse_agreement(mirror, self._payoff),
        )

    def _earned(self, make: Callable[[Seeds], Player], partner: str) -> float:
        return float(self._play(make, maker(partner, self._rate)).of(0).mean())

    def _play(self, a: Callable[[Seeds], Player], b: Callable[[Seeds], Player]) -> Outcome:
        return play_match(
            a, b, self._payoff,
            runs=self._runs, episodes=self._episodes, horizon=self._horizon,
            seed=(self._seed, REPORTED),
        )  # fmt: skip


def _summary(settings: Sequence[_Shares]) -> dict[str, dict[str, float]]:
    by_partner = {
        name: [shares.by_partner[name] for shares in settings] for name in ("itself", *PARTNERS)
    }
    summary = {
        name: {"mean": sum(values) / len(values), "lowest": min(values)}
        for name, values in by_partner.items()
    }
    summary["itself"]["worst_run"] = min(shares.worst_run for shares in settings)
    summary["itself"]["locked"] = sum(shares.locked for shares in settings)
    return summary
