"""What share of the possible surplus traders gain that were trained together.

python -m benchmarks.training.trading [--seeds 0] [--markets 400] [--out FOLDER]

Trains with examples/trading.yaml, once per seed, and has the traders deal in the same markets
before and after; none of them is trained in. FOLDER gets one run per seed. Exit code 1 if a target
is missed.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import transformers

from benchmarks.training import records
from benchmarks.training.exams import all_played, last_info, share_in_words
from benchmarks.training.records import Check
from srl_agents.episode import Episode
from srl_agents.policy import Policy
from srl_agents.scripted.observation_layout import VectorLayout
from srl_agents.scripted.registry import classic_policy
from srl_envs.games.trading.env import SocialTrading
from srl_envs.games.trading.view import field_sizes
from srl_train.config import yaml_file
from srl_train.trainer import MultiModelTrainer

CONFIG = records.ROOT / "examples" / "trading.yaml"
TRADERS = ("uniform", "truthful_trader")
LEAST = 0.70  # share of the possible surplus
SECONDS = 600.0  # a run, from nothing to its last evaluation
MARKETS = 400
UNSEEN = 2**31  # training draws its markets' seeds below it


def measure(
    seeds: Sequence[int],
    folder: Path,
    markets: int = MARKETS,
    config: Path = CONFIG,
    overrides: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """{"game": what is played, "traders": name -> shares, "runs": [one mapping per seed]}."""
    runs = []
    for seed in seeds:
        loaded = yaml_file.load(config, {**(overrides or {}), "seed": seed})
        options = dict(loaded.environment.options)
        began, worked = time.perf_counter(), time.process_time()
        trainer = MultiModelTrainer(loaded, folder / f"trading_{seed}")
        before = dealt(options, trainer.run.policies, markets)
        trainer.fit()
        after = dealt(options, trainer.run.policies, markets)
        runs.append(
            {
                "seed": seed,
                "before": before,
                "after": after,
                "episodes": loaded.rounds * loaded.rollout.episodes,
                "training_seconds": trainer.run.seconds,
                "wall_seconds": time.perf_counter() - began,
                "cpu_seconds": time.process_time() - worked,
            }
        )
    traders = {}
    for name in TRADERS:
        env = SocialTrading(**options)
        seats = dict.fromkeys(env.possible_agents, classic_policy(name, env))
        traders[name] = dealt(options, seats, markets)
    return {"game": {**options, "markets": markets}, "traders": traders, "runs": runs}


def dealt(options: Mapping[str, Any], seats: Mapping[str, Policy], markets: int) -> dict[str, Any]:
    """One episode in each market: what was gained of all that could be, and what became of goods.

    `share` is the sum of all gains over the sum of all possible ones, with the standard error of
    that ratio; `mean_share` counts every market alike.
    """

    def make() -> SocialTrading:
        return SocialTrading(**options)

    episodes = all_played(make, seats, range(UNSEEN, UNSEEN + markets))
    ends = [last_info(episode) for episode in episodes]
    gained = np.array([end["realised_surplus"] for end in ends], dtype=float)
    possible = np.array([end["possible_surplus"] for end in ends], dtype=float)
    share = gained.sum() / possible.sum()
    # Of a ratio of means, by its linearisation (Cochran 1977, eq. 6.13).
    residuals = gained - share * possible
    error = residuals.std(ddof=1) / possible.mean() / math.sqrt(markets) if markets > 1 else None
    shares = [end["surplus_share"] for end in ends if end["surplus_share"] is not None]
    env = make()
    stocks = VectorLayout(field_sizes(env.rules, env.network))
    return {
        "share": float(share),
        "standard_error": None if error is None else float(error),
        "mean_share": math.fsum(shares) / len(shares),
        "goods_moved_only": sum(conserved(episode, stocks) for episode in episodes),
    }


def conserved(episode: Episode, read: Callable[[Any], Mapping[str, np.ndarray[Any, Any]]]) -> bool:
    """Whether every round found all the goods there were, nobody below nothing, and rewards that
    add up to the realised surplus."""
    held = np.array(
        [[read(step.observation)["own_stock"] for step in turn] for turn in episode.turns]
    )
    there = held.sum(axis=1)
    rewards = sum(step.reward for turn in episode.turns for step in turn)
    realised = last_info(episode)["realised_surplus"]
    return bool((there == there[0]).all() and (held >= 0).all() and rewards == realised)


def checks(result: Mapping[str, Any]) -> list[Check]:
    """The targets, over all seeds."""
    runs, markets = result["runs"], result["game"]["markets"]
    shares = [run["after"]["share"] for run in runs]
    moved = min(run[when]["goods_moved_only"] for run in runs for when in ("before", "after"))
    slowest = max(run["wall_seconds"] for run in runs)
    return [
        Check(
            f"trained traders gain at least {LEAST:.0%} of the possible surplus, on every seed",
            min(shares) >= LEAST,
            f"least {min(shares):.1%} of {len(shares)} seeds",
        ),
        Check(
            "goods are conserved in every market",
            moved == markets,
            f"in at least {moved} of {markets}",
        ),
        Check(
            f"a run, from nothing to its last evaluation, takes under {SECONDS:.0f} s",
            slowest < SECONDS,
            f"slowest {slowest:.0f} s",
        ),
    ]


def markdown(result: Mapping[str, Any]) -> str:
    """One row per run and kind of scripted traders, and the targets."""
    rows = [
        (
            f"trained, seed {run['seed']}",
            _gained(run["before"]),
            _gained(run["after"]),
            f"{run['after']['mean_share']:.1%}",
            run["episodes"],
            f"{run['training_seconds']:.0f}",
            f"{run['wall_seconds']:.0f}",
            f"{run['cpu_seconds']:.0f}",
        )
        for run in result["runs"]
    ]
    rows += [
        (name, "", _gained(found), f"{found['mean_share']:.1%}", "", "", "", "")
        for name, found in result["traders"].items()
    ]
    headers = (
        "who trades", "surplus before training", "surplus", "mean of the markets",
        "training episodes", "training, s", "whole run, s", "CPU-s",
    )  # fmt: skip
    game = result["game"]
    said = ", ".join(f"{name} {value}" for name, value in game.items() if name != "markets")
    legend = (
        f"Share of the possible surplus gained in {game['markets']} markets that nobody trained "
        "in: all gains over all that could be gained, each unit to who values it most, with its "
        f"standard error; {said}. The mean of the markets counts each alike, however little there "
        "was to gain. The models answer as they are sampled in training (temperature 1)."
    )
    return f"{records.table(headers, rows)}\n\n{legend}\n\n{records.listed(checks(result))}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--markets", type=int, default=MARKETS, help="markets to deal in")
    parser.add_argument("--out", type=Path, help="keep the runs there (default: nowhere)")
    records.add_overrides(parser)
    records.add_arguments(parser)
    asked = parser.parse_args(arguments)
    transformers.utils.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory(prefix="trading-") as temporary:
        result = measure(
            asked.seeds,
            asked.out or Path(temporary),
            asked.markets,
            overrides=records.settings_of(asked.overrides),
        )
    records.keep("trading", result, markdown(result), asked)
    return 0 if all(check.held for check in checks(result)) else 1


def _gained(found: Mapping[str, Any]) -> str:
    return share_in_words(found["share"], found["standard_error"])


if __name__ == "__main__":
    raise SystemExit(main())
