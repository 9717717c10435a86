"""Comparisons of algorithms at equal numbers of answer tokens."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from benchmarks import games
from benchmarks.claim import Request, Result, Row, Settings
from benchmarks.games import ColourGame
from benchmarks.records import Interval
from benchmarks.runs import HeldOut, assembled, rounds_of
from srl_agents.episode import Episode
from srl_extensions.judging.aggregates import interquartile_mean

BEFORE = "before training"
BEST = 1.0
"""Score of a policy that knows the right colours."""
UNSEEN = 2**31  # Training draws the seeds of its games below this one.


def named_algorithms(request: Request) -> Result:
    """Train every algorithm in every game up to a number of answer tokens.

    Scores are shares of the best possible reward, averaged over the agents. The rows of the result
    are runs, then one per game; its references are the lines of the table, one per algorithm and
    untrained policy.
    """
    all_games = request.claim.options["games"]
    ends: dict[str, dict[str, float]] = {}
    for name, game in all_games.items():
        settings = {**request.claim.settings, **game["settings"], **request.overrides}
        exam = colour_exam(game["env"], request.games)
        with assembled(settings, exam.make) as run:  # The same embedded model on every seed.
            before = exam(run)["score"]
        ends[name] = {BEFORE: before, "uniform": exam.scripted("uniform")["score"]}
    runs: list[dict[str, Any]] = []
    for seed in request.seeds:
        for algorithm, own in request.claim.methods.items():
            for name, game in all_games.items():
                settings = {
                    **request.claim.settings, **game["settings"], **own, "seed": seed,
                    "rounds": game["tokens"], **request.overrides,
                }  # fmt: skip
                exam = colour_exam(game["env"], request.games)
                found = train_to_tokens(exam, settings, game["tokens"])
                low = ends[name]["uniform"]
                runs.append({
                    "part": "run", "game": name, "algorithm": algorithm, "seed": seed,
                    "rate": settings["algorithm.learning_rate"], **found,
                    "sees": algorithm not in game["blind"],
                    "gain": found["after"] - ends[name][BEFORE],
                    "share": (found["after"] - low) / (BEST - low),
                })  # fmt: skip
    references = [_of_algorithm(name, runs) for name in request.claim.methods]
    for policy in (BEFORE, "uniform"):
        scores = {name: f"{ends[name][policy]:.2f}" for name in all_games}
        references.append({"part": "algorithm", "algorithm": policy, **scores})
    tokens = {name: [run["tokens"] for run in _of(runs, game=name)] for name in all_games}
    said = (
        f"{name} {' to '.join(dict.fromkeys([str(min(own)), str(max(own))]))}"
        for name, own in tokens.items()
    )
    rows = [*runs, *(_of_game(name, runs) for name in all_games)]
    return Result(rows, references, {"tokens": ", ".join(said)})


def colour_exam(env: str, count: int) -> HeldOut:
    """Return an evaluation on `count` episodes of `benchmarks.games.ENV` with unseen seeds.

    Its score is the mean over agents and episodes of the share of the best return.
    """
    make: type[ColourGame] = getattr(games, env)

    def score(episodes: Sequence[Episode]) -> dict[str, Any]:
        most = [stake * make.turns for stake in make.stakes]
        shares = [
            earned / best
            for episode in episodes
            for earned, best in zip(episode.returns().values(), most, strict=True)
        ]
        return {"score": sum(shares) / len(shares)}

    return HeldOut(make, range(UNSEEN, UNSEEN + count), score)


def train_to_tokens(exam: HeldOut, settings: Settings, tokens: int) -> dict[str, Any]:
    """Train whole rounds in the game of `exam` until models have written `tokens` answer tokens.

    Returns "after" (score of the exam), "tokens" (number written) and "cpu_seconds".
    """
    began = time.process_time()
    with assembled(settings, exam.make) as run:
        generated = 0
        for result in rounds_of(run):
            generated += answer_tokens(result.episodes)
            if generated >= tokens:
                break
        after, spent = exam(run)["score"], time.process_time() - began
        return {"after": after, "tokens": generated, "cpu_seconds": spent}


def answer_tokens(episodes: Sequence[Episode]) -> int:
    """Return the number of tokens that models wrote in episodes."""
    steps = [step for episode in episodes for turn in episode.turns for step in turn]
    return sum(
        len(s.decision.tokens.completion_ids) for s in steps if s.decision.tokens is not None
    )


def _of(runs: Sequence[Row], **which: str) -> list[Row]:
    return [row for row in runs if which.items() <= row.items()]


def _aggregated(runs: Sequence[Row], entry: str) -> Interval:
    """Return the interquartile mean of an entry of all runs, resampled game by game."""
    scores: dict[str, list[float]] = {}
    for row in runs:
        scores.setdefault(row["game"], []).append(row[entry])
    value, interval = interquartile_mean(scores, seed=0)
    return Interval(value, *(interval or (value, value)))


def _of_game(name: str, runs: Sequence[Row]) -> dict[str, Any]:
    """Return the row of a game, from the runs of all games.

    "apart" is the lower end of the best algorithm's interval minus the upper end of the worst's;
    "highest" is the best algorithm's share of the way from uniform play to the best score.
    """
    algorithms = dict.fromkeys(row["algorithm"] for row in runs)
    found = {own: _aggregated(_of(runs, game=name, algorithm=own), "after") for own in algorithms}
    best = max(found, key=lambda own: found[own].mean)
    worst = min(found, key=lambda own: found[own].mean)
    highest = _aggregated(_of(runs, game=name, algorithm=best), "share").mean
    apart = found[best].low - found[worst].high
    return {"part": "game", "game": name, "highest": highest, "apart": apart}


def _of_algorithm(name: str, runs: Sequence[Row]) -> dict[str, Any]:
    """Return an algorithm's line of the table, from the runs of all algorithms."""
    own = _of(runs, algorithm=name)

    def shown(rows: Sequence[Row], entry: str, form: str) -> str:
        mean, low, high = (format(end, form) for end in _aggregated(rows, entry))
        return f"{mean} [{low}, {high}]"

    names = dict.fromkeys(row["game"] for row in own)
    return {
        "part": "algorithm", "algorithm": name, "rate": own[0]["rate"],
        **{game: shown(_of(own, game=game), "after", ".2f") for game in names},
        "all": shown(own, "share", ".0%"),
        "cpu_seconds": sum(row["cpu_seconds"] for row in own) / len(own),
    }  # fmt: skip
