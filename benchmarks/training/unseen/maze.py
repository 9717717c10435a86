"""Mazes that nobody trained in, each a layout that no training level has, turned or mirrored."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.repeats import Estimate, estimate
from benchmarks.training.claim import Claim, Request, Result, Table, Target
from benchmarks.training.runs import COST, QUICK, last_info, options_of, trained
from benchmarks.training.unseen.exam import HeldOut
from srl_agents.episode import Episode
from srl_envs.games.maze import Maze
from srl_envs.games.maze_levels import MazeRecipe

BASELINE = "greedy_walker"
"""What a trained model is measured against: a walker that needs no training."""
WALKERS = ("random_walker", BASELINE, "explorer")


def measure(request: Request) -> Result:
    """One row per seed; the scripted walkers beside them."""
    options = options_of(request, "maze.yaml")
    exam = held_out(options, request.games)
    walkers = {name: exam.scripted(name) for name in WALKERS}
    rows = []
    for run in trained(request, "maze.yaml", {"after": exam}, named_by="layout_hash"):
        who, met = f"trained, seed {run['seed']}", exam.overlap(run["met"])
        more = difference(run["after"]["solved"], walkers[BASELINE]["solved"])
        rows.append({**run, **met, "who": who, "more": more})
    said = ", ".join(f"{name} {value}" for name, value in options.items())
    references = [{"who": name, "after": walked} for name, walked in walkers.items()]
    return Result(rows, references, {"said": said})


def held_out(options: Mapping[str, Any], count: int) -> HeldOut:
    """Levels of the test split, every one another layout, played once by whoever walks."""
    make = functools.partial(Maze, **{**options, "split": "test"})
    recipe: MazeRecipe = make().recipe
    levels = recipe.level_seeds("test", count, distinct=True)
    return HeldOut(
        make,
        range(count),
        score,
        [{"level_seed": level} for level in levels],
        frozenset(recipe.level(level).layout_hash for level in levels),
    )


def score(episodes: Sequence[Episode]) -> dict[str, Any]:
    """How many reach the goal, and by how long a way."""
    ends = [last_info(episode) for episode in episodes]
    detours = [end["steps"] / end["shortest_path"] for end in ends if end["success"]]
    return {
        "solved": estimate([float(end["success"]) for end in ends]),
        "detour": sum(detours) / len(detours) if detours else None,
    }


def difference(model: Estimate, walker: Estimate) -> Estimate:
    """How much more of the mazes the model solves.

    Both walk the same mazes, which the error leaves out of account: it is too large if anything.
    """
    return Estimate(model.mean - walker.mean, math.hypot(model.error or 0.0, walker.error or 0.0))


MAZE = Claim(
    measure,
    tables=[
        Table(
            {
                "who walks": "{who}",
                "solved before training": "{before[solved]:.1%}",
                "solved": "{after[solved]:.1%}",
                f"more than {BASELINE}": "{more.mean:+.1%} ± {more.error:.1%}",
                "steps / shortest path": "{after[detour]:.2f}",
                "training layouts": "{trained_on}",
                "training episodes": "{episodes}",
                "training, s": "{training_seconds:.0f}",
                **COST,
            }
        )
    ],
    targets=[
        Target(
            "at least 80% of the unseen mazes are solved, on every seed",
            "after[solved].mean", ">=", 0.80, "{:.1%}",
        ),
        Target(
            "no layout was both trained on and tested on", "trained_and_asked", "==", 0, "{} were"
        ),
        QUICK,
    ],
    legend="Share of {games} held-out mazes, all of different layouts, whose goal is reached in "
    "time, with its standard error; {said}. Steps are those of solved mazes. The model answers as "
    "it is sampled in training (temperature 1).",
    games=200,
    writes_runs=True,
)  # fmt: skip
