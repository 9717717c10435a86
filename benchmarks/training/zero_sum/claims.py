"""How far from an equilibrium the embedded model plays zero-sum games in words: after plain
self-play, beside a reference that moves, and against pools of its past."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from benchmarks.training.claim import Claim, Request, Result, Table, Target
from benchmarks.training.runs import Settings, assembled, rounds_of
from benchmarks.training.zero_sum import kuhn_poker, rock_paper_scissors
from srl_train.pools import grow_pools


@dataclass(frozen=True)
class Judged:
    """A game whose strategies can be asked for and judged exactly."""

    make_env: Callable[[], Any]
    judge: ModuleType
    """Its `asked`, `exploitability` and `mixture`."""
    settings: Settings
    """Of all methods alike."""
    entropy: float
    """Weight of the entropy bonus beside a moving reference, and of it alone."""
    entropy_of_oracles: float
    """The same where past versions are met."""


POINTS = 10
"""Strategies are asked for at the start and so many times more."""
ROUNDS = 200
POOL = "past"
PLAIN, ENTROPY, MOVING = "plain self-play", "entropy bonus alone", "moving reference"
FICTITIOUS, ORACLES = "fictitious self-play", "PSRO"
ALL_METHODS: Settings = {
    "models.count": 1,
    "models.constrained": True,
    "mode.name": "raw",
    "algorithm.scale_rewards": "none",
    "algorithm.learning_rate": 1e-3,
    "algorithm.schedule": "linear",
    # Momentum makes two sides that answer each other overshoot (Gidel et al. 2019).
    "algorithm.trl.adam_beta1": 0.0,
    "rounds": ROUNDS,
    "seats.player_0": "model_0",
}
ROCK, POKER = "biased rock-paper-scissors", "Kuhn poker"
GAMES: Mapping[str, Judged] = {
    ROCK: Judged(
        rock_paper_scissors.BiasedRockPaperScissors,
        rock_paper_scissors,
        {"rollout.group_size": 16, "rollout.groups_per_round": 4},
        entropy=0.05,
        entropy_of_oracles=0.3,
    ),
    POKER: Judged(
        kuhn_poker.KuhnPoker,
        kuhn_poker,
        {"rollout.group_size": 8, "rollout.groups_per_round": 8},
        entropy=0.2,
        entropy_of_oracles=0.2,
    ),
}


def methods_in(game: Judged, rounds: int) -> Mapping[str, Settings]:
    """Method -> its settings in the game, for so many rounds."""
    entropy = {"algorithm.trl.entropy_coef": game.entropy}
    reference = {
        "algorithm.beta": 0.5,
        "algorithm.reference": "moving",
        "algorithm.reference_every": 20,
    }
    pool = {"every": rounds // POINTS, "keep": rounds, "draw_each": "group"}
    against_past = {
        "seats.player_1": POOL,
        "algorithm.trl.entropy_coef": game.entropy_of_oracles,
        **{f"opponent_pools.{POOL}.{name}": value for name, value in pool.items()},
    }
    return {
        PLAIN: {},
        ENTROPY: entropy,
        MOVING: {**reference, **entropy},
        FICTITIOUS: {**against_past, f"opponent_pools.{POOL}.draw": "uniform"},
        ORACLES: {**against_past, f"opponent_pools.{POOL}.draw": "nash"},
    }


def measure(request: Request) -> Result:
    """One row per game, seed, method and what is judged."""
    rows: list[dict[str, Any]] = []
    rounds = request.overrides.get("rounds", ROUNDS)
    for name, game in GAMES.items():
        for seed in request.seeds:
            plain = 0.0
            for method, own in methods_in(game, rounds).items():
                settings = {**ALL_METHODS, **game.settings, **own, **request.overrides}
                run = trained(game, {**settings, "seed": seed})
                plain = plain or run[0]["end"]
                rows += [
                    {
                        "game": name,
                        "method": method,
                        "seed": seed,
                        **row,
                        "of_plain": row["end"] / plain,
                        "falls": min(row["start"] - row["middle"], row["middle"] - row["end"]),
                    }
                    for row in run
                ]
    return Result(rows)


def trained(game: Judged, settings: Settings) -> list[dict[str, Any]]:
    """Two rows of a run: its newest strategy at the start, in the middle (the mean of 40, 50 and 60
    % of the rounds) and in the end (80, 90 and 100 %), and the mixture of its strategies so far:
    as its pool draws them, evenly where it has none."""
    began = time.process_time()
    with assembled(settings, game.make_env) as run:
        backend, judge = run.players.backends["model_0"], game.judge
        strategies, mixed = [judge.asked(backend)], []
        for _ in rounds_of(run):
            if not run.next_round % (run.config.rounds // POINTS):
                strategies.append(judge.asked(backend))
                grow_pools(run, run.next_round)
                weights = run.pools[POOL].chances() if run.pools else [1.0] * len(strategies)
                mixed.append(judge.exploitability(judge.mixture(strategies, weights)))
    newest = [judge.exploitability(one) for one in strategies]
    half = POINTS // 2
    return [
        {
            "judged": "newest",
            "start": newest[0],
            "middle": sum(newest[half - 1 : half + 2]) / 3,
            "end": sum(newest[-3:]) / 3,
            "course": newest,
            "cpu_seconds": time.process_time() - began,
        },
        {
            "judged": "mixture",
            "start": newest[0],
            "middle": mixed[half - 1],
            "end": mixed[-1],
        },
    ]


_COLUMNS = {"game": "{game}", "learned by": "{method}", "judged": "{judged}"}
ZERO_SUM = Claim(
    measure,
    tables=[
        Table(
            {
                **_COLUMNS,
                "seed": "{seed}",
                "start": "{start:.2f}",
                "middle": "{middle:.2f}",
                "end": "{end:.2f}",
                "of plain self-play's": "{of_plain:.2f}",
                "CPU-s": "{cpu_seconds:.0f}",
            },
            "**Exploitability by seed**",
        ),
        Table(
            {
                **_COLUMNS,
                "start": "{start.interval:.2f}",
                "middle": "{middle.interval:.2f}",
                "end": "{end.interval:.2f}",
                "of plain self-play's": "{of_plain.interval:.2f}",
            },
            "**Over the seeds**: mean and 95 % interval (Student's t)",
            over_seeds=("game", "method", "judged"),
        ),
    ],
    targets=[
        Target(
            "{game}: beside a moving reference the newest model ends below half of plain "
            "self-play's exploitability, on every seed",
            "of_plain", "<", 0.5, "{:.2f} of it",
            {"method": MOVING, "judged": "newest"},
        ),
        Target(
            "{game}: and its exploitability falls from the start to the middle to the end, on "
            "every seed",
            "falls", ">", 0.0, "by {:.3f} at least",
            {"method": MOVING, "judged": "newest"},
        ),
    ],
    legend="Seeds {seeds}. Exploitability is exact: what best responses gain, averaged over both "
    "places, against the model's own probabilities of its legal answers in every situation. "
    "The newest model's is the mean at 40, 50 and 60 % of the rounds (middle) and at 80, 90 and "
    "100 % (end). A mixture is of the strategies so far, taken at every tenth of the rounds, one "
    "drawn for each game: evenly, of PSRO by its equilibrium among them. The last column but one "
    "compares with the newest model of plain self-play. CPU-seconds are a whole run's.",
)  # fmt: skip
