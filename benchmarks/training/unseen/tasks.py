"""Problems that nobody trained on: one-digit arithmetic, two tools, and three tasks in one run."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.repeats import estimate
from benchmarks.training.claim import Claim, Curves, Request, Result, Table, Target
from benchmarks.training.runs import COST, QUICK, last_info, options_of, trained
from benchmarks.training.unseen.exam import HeldOut
from srl_agents.episode import Episode
from srl_envs import make
from srl_train.metrics import run_folder

SEARCHED = 4000  # problem seeds looked through: one-digit problems come up long before
NOBODY_TRAINED = Target(
    "no problem was both trained on and asked here", "trained_and_asked", "==", 0, "{} were"
)


def arithmetic(request: Request) -> Result:
    """One row per seed: every problem of a split asked `games` times."""
    options = options_of(request, "math.yaml")
    papers = {
        name: every_problem(options, split, request.games)
        for name, split in (("after", "test"), ("training_problems", "train"))
    }
    runs = trained(request, "math.yaml", papers, named_by="problem")
    rows = [{**run, **papers["after"].overlap(run["met"])} for run in runs]
    counts = {name: len(paper.seeds) // request.games for name, paper in papers.items()}
    return Result(rows, facts=counts)


def every_problem(options: Mapping[str, Any], split: str, tries: int) -> HeldOut:
    """All problems of a split, each as often as asked."""
    env_maker = functools.partial(make, "math_v0", **{**options, "split": split})
    env = env_maker()
    found: dict[str, int] = {}
    for seed in range(SEARCHED):
        found.setdefault(env.problem(seed).question, seed)
    problems = [seed for seed in found.values() for _ in range(tries)]

    def score(episodes: Sequence[Episode]) -> dict[str, Any]:
        """Right answers at the first attempt; the error is over problems."""
        right: dict[int, list[float]] = {}
        for seed, episode in zip(problems, episodes, strict=True):
            right.setdefault(seed, []).append(float(episode.turns[0][0].info["correct"]))
        return {"right": estimate([sum(one) / len(one) for one in right.values()])}

    return HeldOut(
        env_maker,
        range(len(problems)),
        score,
        [{"problem_seed": seed} for seed in problems],
        frozenset(env.problem(seed).identity for seed in found.values()),
    )


def tools(request: Request) -> Result:
    """One row per seed."""
    exam = held_out_tools(options_of(request, "tool_use.yaml"), request.games)
    runs = trained(request, "tool_use.yaml", {"after": exam}, named_by="problem")
    return Result([{**run, **exam.overlap(run["met"])} for run in runs])


def held_out_tools(options: Mapping[str, Any], count: int) -> HeldOut:
    """So many problems with held-out calculations, each worked on once."""
    env_maker = functools.partial(make, "tool_use_v0", **{**options, "split": "test"})
    env = env_maker()

    def score(episodes: Sequence[Episode]) -> dict[str, Any]:
        """Share solved, and turns per problem."""
        return {
            "solved": estimate([float(last_info(one)["success"]) for one in episodes]),
            "turns": sum(len(one.turns) for one in episodes) / len(episodes),
        }

    return HeldOut(
        env_maker,
        range(count),
        score,
        [{"problem_seed": seed} for seed in range(count)],
        frozenset(env.problem(seed).identity for seed in range(count)),
    )


def several_tasks(request: Request) -> Result:
    """One row per seed and task, with a curve of the share solved in training."""
    exam = of_each_task(options_of(request, "several_tasks.yaml"), request.games)
    runs = trained(request, "several_tasks.yaml", {"after": exam})
    return Result([row for run in runs for row in by_task(run)])


def of_each_task(options: Mapping[str, Any], count: int) -> HeldOut:
    """So many held-out problems of each task, each worked on once."""
    members = {
        label: {**told, "options": {**told["options"], "split": "test"}}
        for label, told in options["environments"].items()
    }
    places = [(label, seed) for label in members for seed in range(count)]

    def score(episodes: Sequence[Episode]) -> dict[str, Any]:
        """Task -> share solved."""
        ends: dict[str, list[float]] = {}
        for (label, _), episode in zip(places, episodes, strict=True):
            ends.setdefault(label, []).append(float(last_info(episode)["success"]))
        return {label: estimate(own) for label, own in ends.items()}

    return HeldOut(
        functools.partial(make, "multitask_v0", **{**options, "environments": members}),
        range(len(places)),
        score,
        [{"environment": label, "problem_seed": seed} for label, seed in places],
    )


def by_task(run: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The row of each task that was learned in this run."""
    folder = run_folder.load(Path(run["out"]))
    for label, after in run["after"].items():
        before = run["before"][label]
        error = math.hypot(before.error or 0.0, after.error or 0.0)
        curve = folder.series("by_environment", label, "success")
        yield {
            **run,
            "task": label,
            "before": before,
            "after": after,
            "beyond_chance": after.mean - before.mean - 2 * error,
            "episodes": int(folder.total("by_environment", label, "episodes")),
            # JSON has no NaN: a round that did not play the task.
            "curve": [None if math.isnan(y) else y for y in curve],
        }


ARITHMETIC = Claim(
    arithmetic,
    tables=[
        Table(
            {
                "seed": "{seed}",
                "right before training": "{before[right]:.1%}",
                "right": "{after[right]:.1%}",
                "right on training problems": "{training_problems[right]:.1%}",
                "training episodes": "{episodes}",
                **COST,
            }
        )
    ],
    targets=[
        Target(
            "at first under 20% of the unseen problems are right, on every seed",
            "before[right].mean", "<", 0.20, "{:.1%}",
        ),
        Target("after it at least 90%, on every seed", "after[right].mean", ">=", 0.90, "{:.1%}"),
        NOBODY_TRAINED,
        QUICK,
    ],
    legend="Share of right answers to {after} held-out problems such as 3 + 5 and 8 - 3 "
    "({training_problems} are trained on), each asked {games} times and answered as in training "
    "(temperature 1, one attempt), with its standard error over problems. A sum is held out in "
    "both orders of its numbers. The warm start shows working (3 + 5, 4 + 4, 5 + 3, ...) that "
    "stops after a random number of steps; when to stop is what is learned.",
    games=16,
    writes_runs=True,
)  # fmt: skip
TOOLS = Claim(
    tools,
    tables=[
        Table(
            {
                "run": "seed {seed}",
                "solved before training": "{before[solved]:.1%}",
                "solved": "{after[solved]:.1%}",
                "turns": "{after[turns]:.2f}",
                "calculations trained on": "{trained_on}",
                "held out": "{held_out}",
                "training episodes": "{episodes}",
                **COST,
            }
        )
    ],
    targets=[
        Target(
            "at least 80% of the unseen problems are solved, on every seed",
            "after[solved].mean", ">=", 0.80, "{:.1%}",
        ),
        NOBODY_TRAINED,
        QUICK,
    ],
    legend="Share of {games} problems with held-out calculations that are solved by reading a "
    "file, calculating and answering, with its standard error. The model answers as it is sampled "
    "in training (temperature 1).",
    games=200,
    writes_runs=True,
)  # fmt: skip
SEVERAL_TASKS = Claim(
    several_tasks,
    tables=[
        Table(
            {
                "task": "{task}, seed {seed}",
                "solved before training": "{before:.1%}",
                "solved": "{after:.1%}",
                "training episodes": "{episodes}",
                **COST,
            }
        )
    ],
    targets=[
        Target(
            "{task}: more unseen problems are solved than before, by more than two standard errors "
            "on every seed",
            "beyond_chance", ">", 0.0, "{:.1%} beyond that",
        )
    ],
    legend="Share of {games} held-out problems of each task that are solved, with its standard "
    "error; answered as sampled in training (temperature 1). A run, its seconds and its model are "
    "those of all three tasks together.",
    games=200,
    writes_runs=True,
    figure=Curves("Share of training problems solved, by task", by="task", percent=True),
)  # fmt: skip
