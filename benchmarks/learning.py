"""Measurements of trained models: held-out tasks, modes, stages and exchange."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import runs
from benchmarks.claim import Request, Result, Settings
from benchmarks.games import RIGHT
from benchmarks.records import estimate
from benchmarks.runs import HeldOut, Run, evaluate, mean_return, train_methods
from srl_agents.episode import Episode, read_jsonl
from srl_agents.evaluation.episode_stats import winner
from srl_envs import make
from srl_envs.games.maze import Maze

WALKERS = ("random_walker", "greedy_walker", "explorer")


def maze(request: Request) -> Result:
    """Train walkers, and measure them and scripted ones in held-out mazes; one row per run."""
    options = dict(request.config().environment.options)
    exam = held_out_mazes(options, request.games)
    walkers = {name: exam.scripted(name) for name in WALKERS}
    baseline = walkers["greedy_walker"]["solved"]
    rows = []
    for run in train_methods(request, {"after": exam}, named_by="layout_hash"):
        solved = run["after"]["solved"]
        # Both walk the same mazes, so the error is too large rather than too small.
        more, who = solved.minus(baseline), f"trained, seed {run['seed']}"
        rows.append({**run, **exam.overlap(run["met"]), "who": who, "more": more})
    references = [{"who": name, "after": walked} for name, walked in walkers.items()]
    said = ", ".join(f"{name} {value}" for name, value in options.items())
    return Result(rows, references, {"said": said})


def held_out_mazes(options: Mapping[str, Any], count: int) -> HeldOut:
    """Return an evaluation on `count` mazes of the test split with different layouts.

    Scores: "solved" (share of the mazes) and "detour" (steps over the shortest path, of solved
    mazes; None if none was solved).
    """
    make_maze = partial(Maze, **{**options, "split": "test"})
    recipe, numbers = make_maze().recipe, itertools.count()
    seeds: dict[str, int] = {}  # layout_hash -> smallest level seed
    while len(seeds) < count:
        level = recipe.level(seed := next(numbers))
        if level.split == "test":
            seeds.setdefault(level.layout_hash, seed)

    def score(episodes: Sequence[Episode]) -> dict[str, Any]:
        ends = [episode.turns[-1][0].info for episode in episodes]
        detours = [end["steps"] / end["shortest_path"] for end in ends if end["success"]]
        detour = sum(detours) / len(detours) if detours else None
        return {"solved": estimate([float(end["success"]) for end in ends]), "detour": detour}

    resets = [{"level_seed": seed} for seed in seeds.values()]
    return HeldOut(make_maze, range(count), score, resets, frozenset(seeds))


def tools(request: Request) -> Result:
    """Train, and measure `games` held-out calculations; one row per run."""
    make_env = partial(
        make, "tool_use_v0", **{**request.config().environment.options, "split": "test"}
    )
    count = request.games

    def score(episodes: Sequence[Episode]) -> dict[str, Any]:
        turns = sum(len(one.turns) for one in episodes) / len(episodes)
        solved = estimate([float(one.turns[-1][0].info["success"]) for one in episodes])
        return {"solved": solved, "turns": turns}

    env, resets = make_env(), [{"problem_seed": seed} for seed in range(count)]
    identities = frozenset(env.problem(seed).identity for seed in range(count))
    exam = HeldOut(make_env, range(count), score, resets, identities)
    runs = train_methods(request, {"after": exam}, named_by="problem")
    return Result([{**run, **exam.overlap(run["met"])} for run in runs])


def offline(request: Request) -> Result:
    """Train on recorded episodes of several games, without rounds; one row per run."""
    rows: list[dict[str, Any]] = []
    exams = {"after": partial(mean_return, games=request.games)}
    for game, config in request.claim.options["configs"].items():
        own = replace(request, claim=request.claim.model_copy(update={"config": config}))
        for run in train_methods(own, exams):
            [recorded] = (Path(run["out"]) / "data").glob("*.jsonl")
            totals = [t for episode in read_jsonl(recorded) for t in episode.returns().values()]
            data = sum(totals) / len(totals)
            rows.append({**run, "game": game, "data": data, "gain": run["after"] - data})
    return Result(rows)


def team_battle(request: Request) -> Result:
    """Train with every reward mode; one row per run, compared with the first mode."""
    cooperative: dict[int, float] = {}
    rows = []
    for run in train_methods(request, {"after": ends_of_games}):
        after = run["after"]["raw_reward"]
        apart = cooperative.setdefault(run["seed"], after) - after
        rows.append({**run, "below_cooperative": apart})
    env = make("team_battle_v0", **request.config().environment.options).unwrapped
    known = {**env.baselines(), "all compete": env.rules.mean_reward(0, 0)}
    said = ", ".join(f"{name} {value:.4f}" for name, value in known.items())
    return Result(rows, facts={"known": said})


def ends_of_games(run: Run) -> dict[str, Any]:
    """Play the evaluation games of a run; return its results, with "winners".

    "least" and "most" are the mean rewards of the worst and the best agent.
    """
    measured, played = evaluate(run, run.config.logging.evaluation_episodes)
    earned = measured["per_agent"].values()
    winners = Counter(w for e in played if e.failure is None and (w := winner(e)) is not None)
    said = ", ".join(f"{who} {count}" for who, count in sorted(winners.items()))
    return {**measured, "least": min(earned), "most": max(earned), "winners": said}


def federated(request: Request) -> Result:
    """Train every method with several numbers of models; one row per run.

    "right" is the exact probability of right answers, averaged over signals and models, and
    "before" is that before training. "loss" is the share of the first method's gain, with equally
    many models and the same seed, that a method misses.
    """
    rows: list[dict[str, Any]] = []
    first = next(iter(request.claim.methods))
    sizes = request.claim.options["models"]
    for (count, size), seed in itertools.product(sizes.items(), request.seeds):
        agents = {"models.count": count, "environment.options.agents": count}
        for name in request.claim.methods:
            run = _answered(request.settings(name, seed=seed, **agents, **size))
            if name == first:
                best, gain = run, run["right"] - run["before"]
            loss = (best["right"] - run["right"]) / gain if gain else math.nan
            own = {"models": count, "variant": name, "seed": seed, "compared": name != first}
            shares = {"share": run["sent"] / best["sent"], "loss": loss, "lost": 100 * loss}
            rows.append({**own, **run, **shares, "percent": 100 * run["right"]})
    return Result(rows)


def _answered(settings: Settings) -> dict[str, float]:
    """Train a run; return the probabilities of right answers and the exchanged megabytes."""

    def right() -> float:
        rows = [(number / len(RIGHT),) for number in range(len(RIGHT))]
        chances = [runs.answer_chances(run, run.config.models.names, row) for row in rows]
        return float(np.mean([own[:, colour] for own, colour in zip(chances, RIGHT, strict=True)]))

    with runs.assembled(settings) as run:
        before = right()
        sent = sum(one.row.get("communicated_bytes", 0) for one in runs.rounds_of(run)) / 1e6
        return {"before": before, "right": right(), "sent": sent}
