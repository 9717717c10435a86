"""Cross-play: every player against every other in the matrix game, at one setting."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from srl_agents.baselines.our_method import OurMethodRuns
from srl_agents.baselines.simple_pg import SimplePGRuns
from srl_agents.evaluation.matrix_game.match import (
    Coin,
    Outcome,
    Player,
    Scripted,
    Seeds,
    play_match,
)
from srl_agents.evaluation.matrix_game.values import best_response, oracle, payoffs
from srl_agents.scripted import Always, Bernoulli, MemoryOne, TitForTat

SCRIPTED: Mapping[str, MemoryOne] = {
    "AC": Always(1),
    "AP": Always(0),
    "TFT": TitForTat(),
    "CONTRARY": MemoryOne("contrary", (1.0, 1.0, 0.0, 1.0, 0.0)),
    "RANDOM_0.1": Bernoulli(0.1),
    "RANDOM_0.3": Bernoulli(0.3),
    "RANDOM_0.5": Bernoulli(0.5),
    "RANDOM_0.7": Bernoulli(0.7),
    "RANDOM_0.9": Bernoulli(0.9),
}
"""AC always cooperates, AP always competes, RANDOM_q cooperates with chance q.

CONTRARY cooperates first and then does the opposite of what the other did last: only who changes
sides every round meets it.
"""
LEARNERS = ("OUR", "PG", "PG_TUNED")
PLAYERS = (*SCRIPTED, *LEARNERS)
PG_RATE = 0.05
RATES = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 70.0, 100.0)
"""Learning rates among which PG_TUNED's is found."""

# First number of every seed: the tuning shares no draw with what is reported.
REPORTED, TUNING = 0, 1


def run_benchmark(
    runs: int = 5,
    episodes: int = 200,
    coop_level: float = 0.6,
    difficulty: float = 0.3,
    horizon: int = 32,
    seed: int = 42,
    *,
    progress: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Everybody against everybody at one setting.

    Returns {"params": the arguments, "metrics": {"AC", "AP", "PG", "OUR", ...: {avg_A, avg_B,
    std_A, std_B}}} and what else `cross_play` finds. Raises ValueError for a number of runs,
    episodes or rounds below 1, or a level or difficulty outside [0, 1].
    """
    check_counts(runs, episodes, horizon, seed)
    params: dict[str, Any] = {
        "runs": runs,
        "episodes": episodes,
        "horizon": horizon,
        "coop_level": coop_level,
        "difficulty": difficulty,
        "seed": seed,
    }
    return {"params": params, **cross_play(**params, progress=progress)}


def check_counts(runs: int, episodes: int, horizon: int, seed: int) -> None:
    """Raise ValueError for a number of runs, episodes or rounds below 1, or a seed below 0."""
    for name, value in (("runs", runs), ("episodes", episodes), ("horizon", horizon)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    if seed < 0:
        raise ValueError(f"seed must be 0 or more, got {seed}")


def cross_play(
    *,
    runs: int,
    episodes: int,
    horizon: int,
    coop_level: float,
    difficulty: float,
    seed: int,
    players: Sequence[str] = PLAYERS,
    progress: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """What every player earns with every player, and what could be earned.

    Plain data:

    - "metrics": player -> avg_A, avg_B, std_A, std_B of playing with its own kind. An average is
      the mean reward per round over all episodes, training included; a deviation is that of the
      runs' averages (population).
    - "cross_play": row -> column -> {"avg", "std", "worst"}: what the row's player earns.
    - "oracle": the better agreement. "references": partner -> what could be earned with it: the
      exact best response to a scripted one; with a learner, the better of what AC and AP earn.
    - "tuning": {"rate", "grid": rate -> self-play value on other seeds} of PG_TUNED.
    - "self_play": player -> its worst run, and how many runs ended in the worse agreement.
    - "curves": learner -> its self-play mean by episode.
    """
    payoff_22 = payoffs(coop_level, difficulty)
    settings = {"runs": runs, "episodes": episodes, "horizon": horizon}
    rate, grid = PG_RATE, dict[str, float]()
    if "PG_TUNED" in players:
        rate, grid = tuned_rate(payoff_22, seed=seed, **settings)
        progress(f"best learning rate of SimplePG: {rate:g}")
    makers = {name: maker(name, rate) for name in players}
    cells: dict[str, dict[str, dict[str, float]]] = {name: {} for name in players}
    mirrors: dict[str, Outcome] = {}
    for index, row in enumerate(players):
        for column in players[index:]:
            outcome = play_match(
                makers[row], makers[column], payoff_22, seed=(seed, REPORTED), **settings
            )
            cells[row][column] = _cell(outcome.of(0))
            if row == column:
                mirrors[row] = outcome
            else:
                cells[column][row] = _cell(outcome.of(1))
        progress(f"{row} has met everybody")
    return {
        "metrics": {name: _self_play(outcome) for name, outcome in mirrors.items()},
        "oracle": oracle(payoff_22),
        "references": {
            name: _reference(name, cells, payoff_22, horizon)
            for name in players
            if name in SCRIPTED or {"AC", "AP"} <= set(players)
        },
        "cross_play": cells,
        "tuning": {"rate": rate, "grid": grid},
        "self_play": {
            name: {
                "worst": float(min(outcome.of(0).min(), outcome.of(1).min())),
                "runs_in_the_worse_agreement": runs_in_the_worse_agreement(outcome, payoff_22),
            }
            for name, outcome in mirrors.items()
        },
        "curves": {
            name: mirrors[name].rewards_2NE.mean(axis=(0, 1)).round(5).tolist()
            for name in LEARNERS
            if name in mirrors
        },
    }


def tuned_rate(
    payoff_22: NDArray[np.float64], *, runs: int, episodes: int, horizon: int, seed: int
) -> tuple[float, dict[str, float]]:
    """The rate of RATES with which SimplePG earns most in self-play, and each one's value."""
    values = {}
    for rate in RATES:
        make = partial(SimplePGRuns, lr=rate)
        outcome = play_match(
            make, make, payoff_22,
            runs=runs, episodes=episodes, horizon=horizon, seed=(seed, TUNING),
        )  # fmt: skip
        values[rate] = float(outcome.rewards_2NE.mean())
    best = max(RATES, key=values.__getitem__)
    return best, {f"{rate:g}": value for rate, value in values.items()}


def maker(name: str, tuned: float) -> Callable[[Seeds], Player]:
    """What makes the runs of the player of this name; `tuned` is PG_TUNED's learning rate."""
    if name in SCRIPTED:
        chances = SCRIPTED[name].chances
        if len(set(chances)) == 1:
            return lambda seeds: Coin(seeds, chances[0])
        return lambda seeds: Scripted(seeds, chances)
    learners: Mapping[str, Callable[[Seeds], Player]] = {
        "OUR": OurMethodRuns,
        "PG": lambda seeds: SimplePGRuns(seeds, lr=PG_RATE),
        "PG_TUNED": lambda seeds: SimplePGRuns(seeds, lr=tuned),
    }
    return learners[name]


def _cell(value_N: NDArray[np.float64]) -> dict[str, float]:
    return {
        "avg": float(value_N.mean()),
        "std": float(value_N.std()),
        "worst": float(value_N.min()),
    }


def _self_play(outcome: Outcome) -> dict[str, float]:
    a, b = outcome.of(0), outcome.of(1)
    return {
        "avg_A": float(a.mean()),
        "avg_B": float(b.mean()),
        "std_A": float(a.std()),
        "std_B": float(b.std()),
    }


def _reference(
    name: str,
    cells: Mapping[str, Mapping[str, Mapping[str, float]]],
    payoff_22: NDArray[np.float64],
    horizon: int,
) -> float:
    if name in SCRIPTED:
        return best_response(payoff_22, SCRIPTED[name].chances, horizon)
    return max(cells["AC"][name]["avg"], cells["AP"][name]["avg"])


def runs_in_the_worse_agreement(outcome: Outcome, payoff_22: NDArray[np.float64]) -> int:
    """Runs that spent most of their last episodes in the agreement that pays less."""
    gap = payoff_22[1, 1] - payoff_22[0, 0]
    if abs(gap) < 1e-12:
        return 0
    worse = int(gap < 0)
    return int((outcome.late_N22[:, worse, worse] > 0.5).sum())
