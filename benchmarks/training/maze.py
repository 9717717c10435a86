"""What a tiny model that learned in training mazes does in mazes it has never seen.

python -m benchmarks.training.maze [--seeds 0 1 2] [--levels 200] [--out FOLDER]

Trains with examples/maze.yaml, once per seed, and has every model play the same held-out levels
before and after: each a layout of its own, that no training level may have, turned or mirrored.
FOLDER gets one run per seed. Exit code 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import transformers

from benchmarks.training import records
from benchmarks.training.exams import WatchedTrainer, all_played, last_info, share_in_words
from benchmarks.training.records import Check
from srl_agents.policy import Policy
from srl_agents.scripted.registry import classic_policy
from srl_envs.games.maze.env import Maze
from srl_envs.games.maze.generator import MazeRecipe
from srl_train.config import yaml_file

CONFIG = records.ROOT / "examples" / "maze.yaml"
BASELINE = "greedy_walker"
"""What a trained model is measured against: a walker that needs no training."""
WALKERS = ("random_walker", "greedy_walker", "explorer")
LEAST = 0.80  # share of the held-out levels whose goal is reached
SECONDS = 600.0  # a run, from nothing to its last evaluation
LEVELS = 200


def measure(
    seeds: Sequence[int],
    folder: Path,
    levels: int = LEVELS,
    config: Path = CONFIG,
    overrides: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """{"mazes": what is played, "walkers": name -> success, "runs": [one mapping per seed]}."""
    runs = []
    for seed in seeds:
        loaded = yaml_file.load(config, {**(overrides or {}), "seed": seed})
        options = dict(loaded.environment.options)
        test = HeldOut(options, levels)
        began, worked = time.perf_counter(), time.process_time()
        trainer = WatchedTrainer(loaded, folder / f"maze_{seed}", named_by="layout_hash")
        before = test.play(trainer.run.policies)
        trainer.fit()
        after = test.play(trainer.run.policies)
        runs.append(
            {
                "seed": seed,
                "before": before,
                "after": after,
                "train_layouts": len(trainer.met),
                "layouts_in_both": len(trainer.met & test.layouts),
                "episodes": loaded.rounds * loaded.rollout.episodes,
                "training_seconds": trainer.run.seconds,
                "wall_seconds": time.perf_counter() - began,
                "cpu_seconds": time.process_time() - worked,
            }
        )
    walkers = {}
    for name in WALKERS:
        policy = classic_policy(name, test.make())
        walkers[name] = test.play(dict.fromkeys(test.make().possible_agents, policy))
    mazes = {**options, "test_layouts": len(test.layouts)}
    return {"mazes": mazes, "walkers": walkers, "runs": runs}


class HeldOut:
    """The levels that are played: distinct layouts of the test split."""

    def __init__(self, options: Mapping[str, Any], count: int) -> None:
        """`options` are the training environment's, but for the split."""
        self._options = {**options, "split": "test"}
        recipe: MazeRecipe = self.make().recipe
        self._seeds = recipe.level_seeds("test", count, distinct=True)
        self.layouts = {recipe.level(seed).layout_hash for seed in self._seeds}

    def make(self) -> Maze:
        """The environment."""
        return Maze(**self._options)

    def play(self, seats: Mapping[str, Policy]) -> dict[str, float | None]:
        """Every level once, by all seats: how many reach the goal, and by how long a way."""
        episodes = all_played(
            self.make,
            seats,
            range(len(self._seeds)),
            reset_options=[{"level_seed": seed} for seed in self._seeds],
        )
        ends = [last_info(episode) for episode in episodes]
        share, error = records.mean_and_error([float(end["success"]) for end in ends])
        detours = [end["steps"] / end["shortest_path"] for end in ends if end["success"]]
        return {
            "success": share,
            "standard_error": error,
            "detour": sum(detours) / len(detours) if detours else None,
        }


def checks(result: Mapping[str, Any]) -> list[Check]:
    """The targets, on every seed."""
    shares = [run["after"]["success"] for run in result["runs"]]
    shared = max(run["layouts_in_both"] for run in result["runs"])
    slowest = max(run["wall_seconds"] for run in result["runs"])
    return [
        Check(
            f"at least {LEAST:.0%} of the unseen mazes are solved, on every seed",
            min(shares) >= LEAST,
            f"least {min(shares):.1%} of {len(shares)} seeds",
        ),
        Check(
            "no layout was both trained on and tested on",
            shared == 0,
            f"{shared} were",
        ),
        Check(
            f"a run, from nothing to its last evaluation, takes under {SECONDS:.0f} s",
            slowest < SECONDS,
            f"slowest {slowest:.0f} s",
        ),
    ]


def against(model: Mapping[str, Any], walker: Mapping[str, Any]) -> tuple[float, float]:
    """(how much more of the mazes the model solves, standard error of the difference).

    Both walk the same mazes, which the error leaves out of account: it is too large if anything.
    """
    errors = (model["standard_error"] or 0.0, walker["standard_error"] or 0.0)
    return model["success"] - walker["success"], math.hypot(*errors)


def markdown(result: Mapping[str, Any]) -> str:
    """One row per run and walker, and the targets."""
    rows = [
        (
            f"trained, seed {run['seed']}",
            _solved(run["before"]),
            _solved(run["after"]),
            "{:+.1%} ± {:.1%}".format(*against(run["after"], result["walkers"][BASELINE])),
            _detour(run["after"]),
            run["train_layouts"],
            run["episodes"],
            f"{run['training_seconds']:.0f}",
            f"{run['wall_seconds']:.0f}",
            f"{run['cpu_seconds']:.0f}",
        )
        for run in result["runs"]
    ]
    rows += [
        (name, "", _solved(walked), "", _detour(walked), "", "", "", "", "")
        for name, walked in result["walkers"].items()
    ]
    headers = (
        "who walks", "solved before training", "solved", f"more than {BASELINE}",
        "steps / shortest path", "training layouts", "training episodes", "training, s",
        "whole run, s", "CPU-s",
    )  # fmt: skip
    mazes = result["mazes"]
    said = ", ".join(f"{name} {value}" for name, value in mazes.items() if name != "test_layouts")
    legend = (
        f"Share of {mazes['test_layouts']} held-out mazes, all of different layouts, whose goal is "
        f"reached in time, with its standard error; {said}. Steps are those of solved mazes. The "
        "model answers as it is sampled in training (temperature 1)."
    )
    return f"{records.table(headers, rows)}\n\n{legend}\n\n{records.listed(checks(result))}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--levels", type=int, default=LEVELS, help="held-out mazes to play")
    parser.add_argument("--out", type=Path, help="keep the runs there (default: nowhere)")
    records.add_overrides(parser)
    records.add_arguments(parser)
    asked = parser.parse_args(arguments)
    transformers.utils.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory(prefix="maze-") as temporary:
        result = measure(
            asked.seeds,
            asked.out or Path(temporary),
            asked.levels,
            overrides=records.settings_of(asked.overrides),
        )
    records.keep("maze", result, markdown(result), asked)
    return 0 if all(check.held for check in checks(result)) else 1


def _solved(walked: Mapping[str, Any]) -> str:
    return share_in_words(walked["success"], walked["standard_error"])


def _detour(walked: Mapping[str, Any]) -> str:
    return "" if walked["detour"] is None else f"{walked['detour']:.2f}"


if __name__ == "__main__":
    raise SystemExit(main())
