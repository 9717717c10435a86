"""How many games each credit assignment needs where one act alone matters, and what advantage
alignment does in a dilemma.

python -m benchmarks.training.credit [--seeds 0 1 2] [--learners 15]

The key game (`key_game.py`): sixteen seats, eight turns, and one act of one seat that pays; all
else is weather. Tabular softmax learners (`tabular.py`) count the games; the embedded model
then finds the key through the trainer itself. The dilemma is the iterated prisoner's. Exit code 1
if a claim does not hold.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import transformers

from benchmarks.training import records
from benchmarks.training.key_game import (
    COLOUR,
    COLOURS,
    HOLDER,
    SEATS,
    TURNS,
    WEATHER,
    WHEN,
    KeyGame,
)
from benchmarks.training.records import Check
from benchmarks.training.tabular import DILEMMA_TURNS, GROUP, KEPT, dilemma, games_until_found
from srl_agents.episode import Episode
from srl_train.config import yaml_file
from srl_train.config.credit import CreditConfig
from srl_train.engine.assemble import assemble
from srl_train.engine.evaluation import evaluate
from srl_train.engine.rounds import run_round

KEY_CREDIT: Mapping[str, CreditConfig] = {
    "per_agent": CreditConfig(),
    "agent_turn": CreditConfig(name="agent_turn"),
    "team_joint": CreditConfig(name="team_joint"),
}
NAMES = tuple(KEY_CREDIT)
RATES = (0.3, 1.0, 3.0)
MOST = 12_000  # games after which a learner is given up
LEAST_RATIO = 3.0
DILEMMA_NAMES: Mapping[str, CreditConfig] = {
    "agent_turn": CreditConfig(name="agent_turn"),
    "advantage_alignment": CreditConfig(name="advantage_alignment", alignment=1.0),
}
DILEMMA_RATE, DILEMMA_UPDATES = 0.1, 400
# The other seats are held by a scripted policy: the embedded model sits where the key is.
TINY: Mapping[str, Any] = {
    **{f"seats.agent_{seat}": "uniform" for seat in range(SEATS) if seat != HOLDER},
    "models.count": 1,
    "mode.name": "cooperative",
    "mode.cooperation_strength": 0.0,
    "credit.name": "agent_turn",
    "rollout.group_size": 16,
    "rollout.groups_per_round": 2,
    "rounds": 10,
}


def key_games(seeds: Sequence[int], learners: int) -> list[dict[str, Any]]:
    """One mapping per seed, rate and name: the games that each learner needed, and their median."""
    found = []
    for seed in seeds:
        for rate in RATES:
            for name, credit in KEY_CREDIT.items():
                games = [
                    games_until_found(credit, rate, seed * learners + index, MOST)
                    for index in range(learners)
                ]
                ordered = sorted(math.inf if one is None else one for one in games)
                median = ordered[learners // 2]
                found.append(
                    {"seed": seed, "rate": rate, "name": name, "games": games, "median": median}
                )
    return found


def dilemmas(seeds: Sequence[int], updates: int = DILEMMA_UPDATES) -> list[dict[str, Any]]:
    """One mapping per seed and name, with what `dilemma` gives back."""
    return [
        {"seed": seed, "name": name, **dilemma(credit, DILEMMA_RATE, seed, updates)}
        for seed in seeds
        for name, credit in DILEMMA_NAMES.items()
    ]


def with_the_model(
    seeds: Sequence[int], settings: Mapping[str, Any] = TINY
) -> list[dict[str, Any]]:
    """One run of the embedded model per seed: how often it opens, before and after."""
    runs = []
    for seed in seeds:
        began = time.process_time()
        config = yaml_file.from_tree({}, {**settings, "seed": seed})
        run = assemble(config, KeyGame)
        _, before = evaluate(run, 64)
        for number in range(config.rounds):
            run_round(run, number)
            run.next_round = number + 1
        _, after = evaluate(run, 64)
        runs.append(
            {
                "seed": seed,
                "games": config.rounds * config.rollout.episodes,
                "before": opened(before),
                "after": opened(after),
                "cpu_seconds": time.process_time() - began,
            }
        )
    return runs


def opened(episodes: Sequence[Episode]) -> float:
    """Share of the games in which the key turned."""
    acts = [int(one.steps_of(f"agent_{HOLDER}")[WHEN].decision.action) for one in episodes]
    return acts.count(COLOUR) / len(acts)


def measure(seeds: Sequence[int], learners: int) -> dict[str, Any]:
    """Everything: {"key": ..., "dilemma": ..., "model": ...}."""
    return {
        "key": key_games(seeds, learners),
        "dilemma": dilemmas(seeds),
        "model": with_the_model(seeds[:1]),
    }


def checks(result: Mapping[str, Any]) -> list[Check]:
    """The claims."""
    ratios = _ratios(result["key"])
    chance = 1 / len(COLOURS)
    found = [
        Check(
            f"{name} finds the act in at least {LEAST_RATIO:.0f}x fewer games than team_joint, at "
            "every rate on every seed",
            min(own) >= LEAST_RATIO,
            f"{min(own):.1f}x to {max(own):.1f}x",
        )
        for name, own in ratios.items()
    ]
    by_name = {
        name: [run["cooperation"] for run in result["dilemma"] if run["name"] == name]
        for name in DILEMMA_NAMES
    }
    plain, aligned = by_name["agent_turn"], by_name["advantage_alignment"]
    found.append(
        Check(
            "advantage alignment cooperates more in the dilemma, on every seed",
            all(more > less + 0.25 for more, less in zip(aligned, plain, strict=True)),
            f"{min(aligned):.0%} to {max(aligned):.0%} against "
            f"{min(plain):.0%} to {max(plain):.0%}",
        )
    )
    found += [
        Check(
            "the embedded model finds the key through the trainer",
            run["after"] >= 0.9 > 2 * chance > run["before"],
            f"opens {run['before']:.0%} of its games before, {run['after']:.0%} after",
        )
        for run in result["model"]
    ]
    return found


def markdown(result: Mapping[str, Any]) -> str:
    """The three tables and the claims."""
    medians = {(r["seed"], r["rate"], r["name"]): r["median"] for r in result["key"]}
    places = list(dict.fromkeys((r["seed"], r["rate"]) for r in result["key"]))
    rows = [
        (
            seed,
            f"{rate:g}",
            *(f"{medians[seed, rate, name]:g}" for name in NAMES),
            *(
                f"{medians[seed, rate, 'team_joint'] / medians[seed, rate, name]:.1f}x"
                for name in NAMES[:2]
            ),
        )
        for seed, rate in places
    ]
    learners = len(result["key"][0]["games"])
    dilemma_rows = [
        (r["name"], r["seed"], f"{r['cooperation']:.1%}", f"{r['reward']:.3f}")
        for r in sorted(result["dilemma"], key=lambda r: str(r["name"]), reverse=True)
    ]
    model_rows = [
        (
            r["seed"],
            r["games"],
            f"{r['before']:.0%}",
            f"{r['after']:.0%}",
            f"{r['cpu_seconds']:.0f}",
        )
        for r in result["model"]
    ]
    return "\n\n".join(
        [
            f"**The key game**, {SEATS} seats, {TURNS} turns, weather of deviation {WEATHER:g} at "
            f"every turn of every seat: games until the key is found (90 %, lasting {KEPT} "
            f"updates), median of {learners} tabular learners per seed and learning rate, groups "
            f"of {GROUP}",
            records.table(
                ("seed", "rate", *NAMES, *(f"team_joint / {name}" for name in NAMES[:2])), rows
            ),
            f"**The iterated prisoner's dilemma**, {DILEMMA_TURNS} turns, two tabular learners "
            f"that see the last turn, {DILEMMA_UPDATES} updates: the last tenth of them",
            records.table(("credit", "seed", "cooperation", "reward per turn"), dilemma_rows),
            "**The key game, the embedded model through the trainer** (agent_turn)",
            records.table(("seed", "games", "opens before", "after", "CPU-s"), model_rows),
            records.listed(checks(result)),
        ]
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--learners", type=int, default=15, help="tabular learners per seed")
    records.add_arguments(parser)
    asked = parser.parse_args(arguments)
    transformers.utils.logging.disable_progress_bar()
    result = measure(asked.seeds, asked.learners)
    records.keep("credit", result, markdown(result), asked)
    return 0 if all(check.held for check in checks(result)) else 1


def _ratios(key: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    medians = {(r["seed"], r["rate"], r["name"]): r["median"] for r in key}
    return {
        name: [
            medians[seed, rate, "team_joint"] / median
            for (seed, rate, own), median in medians.items()
            if own == name
        ]
        for name in NAMES[:2]
    }


if __name__ == "__main__":
    raise SystemExit(main())
