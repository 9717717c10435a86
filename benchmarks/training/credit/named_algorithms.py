"""Named algorithms on three games that ask one question each, at equal numbers of answer tokens.

What theory says, as it was written down before the measured seeds were run:

`whose`: eight agents share one pay; whose act earned it? Algorithms that hold the others' acts
fixed (at_grpo, whose answers are compared with others to the same situation; difference) come
first. All others compare what all agents share.

`when`: what is right pays when the game ends, and something worse at once. at_grpo as published
compares what one turn pays: it ends with the worse (0.56 of the best) or below. Those that give an
act what is paid from it on (agent_turn, difference, mappo) come before those that give all acts of
a game the same.

`how_much`: half of the agents are paid in coins of 100. Algorithms that divide by the deviation of
what they compare (grpo, dapo, gspo, reinforce_plus_plus, at_grpo, difference, agent_turn) learn
with all agents; the others (dr_grpo, rloo, magrpo, mappo) with the rich first (0.63 of the best
while the poor play at random).

One embedded model plays all agents. Each algorithm has its published settings, those of its preset
(srl_train.config.learning.presets), and one learning rate, chosen on seed 100 by this command with
`--set algorithm.learning_rate=...`. The numbers of tokens were chosen on seeds 100 to 102, after a
measurement on seeds 0 to 4 in which mappo mastered `whose` with 6000 tokens and gspo `how_much`
with 5000; those measured now are seeds 5 to 9.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.records import circumstances
from benchmarks.training.claim import Claim, Intervals, Request, Result, Row, Table, Target
from benchmarks.training.credit.colour_games import ColourGame, HowMuch, When, Whose
from benchmarks.training.runs import Settings, assembled, rounds_of
from benchmarks.training.unseen.exam import HeldOut
from srl_agents.episode import Decision, Episode
from srl_extensions.research.branching import BranchedEpisode
from srl_extensions.judging.aggregates import Estimate, interquartile_mean
from srl_train.run_files import write_whole

RATES = (1e-3, 3e-3, 1e-2)
"""Learning rates that were tried for each algorithm, on the development seed: at the least, all of
them learned less than at the next."""
ALGORITHMS: Mapping[str, Settings] = {
    **{
        name: {"preset": name}
        for name in (
            "grpo", "dr_grpo", "dapo", "gspo", "rloo", "reinforce_plus_plus", "magrpo", "at_grpo",
            "mappo",
        )
    },
    "difference": {"credit.name": "difference"},
    "agent_turn": {"credit.name": "agent_turn"},
}  # fmt: skip
"""Name -> the settings that make it; agent_turn has the groups of AT-GRPO without its branches."""
CHOSEN: Mapping[str, float] = dict.fromkeys(ALGORITHMS, 3e-3) | {"magrpo": 1e-2}
"""Algorithm -> learning rate in all games: of RATES, the one that came furthest from uniform play
to the best there is on seed 100, in the three games together (of `whose` and `how_much`, with 6000
and 5000 tokens)."""
SHARED: Settings = {
    "models.count": 1,
    "models.constrained": True,
    "rollout.group_size": 8,
    "rollout.groups_per_round": 4,
}
BEFORE = "before training"
BEST = 1.0  # the score of whoever knows the right colours
UNSEEN = 2**31  # training draws its games' seeds below it


@dataclass(frozen=True)
class Game:
    """One game of the table, and what is asked of its players."""

    make: type[ColourGame]
    settings: Settings
    tokens: int
    """Answer tokens that a run is trained on; the round in which they are reached is the last."""
    blind: Collection[str] = ()
    """Algorithms that compare what all agents are paid together, or what is not yet all of an act's
    pay: nobody claims that they learn on every seed."""

    def exam(self, games: int) -> HeldOut:
        """Games that nobody trains in."""
        return HeldOut(self.make, range(UNSEEN, UNSEEN + games), self.score)

    def score(self, episodes: Sequence[Episode]) -> dict[str, Any]:
        """The share of what can be earned, the mean over the agents."""
        most = [stake * self.make.turns for stake in self.make.stakes]
        shares = [
            earned / best
            for episode in episodes
            for earned, best in zip(episode.returns().values(), most, strict=True)
        ]
        return {"score": sum(shares) / len(shares)}


HOLD_OTHERS_FIXED = ("at_grpo", "difference")
GAMES: Mapping[str, Game] = {
    "whose": Game(
        Whose,
        {"mode.name": "cooperative", "mode.cooperation_strength": 1.0},
        tokens=4_000,
        blind=[name for name in ALGORITHMS if name not in HOLD_OTHERS_FIXED],
    ),
    "when": Game(When, {"mode.name": "raw"}, tokens=7_000, blind=["at_grpo"]),
    "how_much": Game(HowMuch, {"mode.name": "raw"}, tokens=4_000, blind=["magrpo"]),
}


def measure(
    request: Request,
    algorithms: Mapping[str, Settings] = ALGORITHMS,
    games: Mapping[str, Game] = GAMES,
) -> Result:
    """One row per run, then one per game; algorithms, and play without training, are told below.

    A run's row is written into the request's folder as soon as it is there, and read from it where
    the same run was measured before, at the same commit.
    """
    ends = {
        name: {BEFORE: _untrained(game, request), "uniform": _uniform(game, request.games)}
        for name, game in games.items()
    }
    commit = circumstances()["commit"]
    runs: list[dict[str, Any]] = []
    for seed in request.seeds:
        for algorithm, own in algorithms.items():
            for name, game in games.items():
                settings = {
                    **SHARED, **game.settings, **own, "seed": seed, "rounds": game.tokens,
                    "algorithm.learning_rate": CHOSEN[algorithm], **request.overrides,
                }  # fmt: skip
                file = request.folder / f"{name}_{algorithm}_{seed}.json"
                asked = {
                    "settings": settings, "tokens": game.tokens, "games": request.games,
                    "commit": commit,
                }  # fmt: skip
                found = _read(file, asked)
                if found is None:
                    found = _trained(game, settings, request.games)
                    file.parent.mkdir(parents=True, exist_ok=True)
                    write_whole(file, json.dumps({"asked": asked, "found": found}))
                low = ends[name]["uniform"]
                share = (found["after"] - low) / (BEST - low)
                runs.append({
                    "part": "run", "game": name, "algorithm": algorithm, "seed": seed,
                    "rate": settings["algorithm.learning_rate"], **found,
                    "sees": algorithm not in game.blind,
                    "gain": found["after"] - ends[name][BEFORE], "share": share,
                })  # fmt: skip
    references = [
        *(_of_algorithm(name, runs) for name in algorithms),
        *({"part": "algorithm", "algorithm": p, **own} for p, own in _by_policy(ends).items()),
    ]
    facts = {"tokens": ", ".join(f"{name} {_generated(name, runs)}" for name in games)}
    return Result([*runs, *(_of_game(name, runs) for name in games)], references, facts)


def _read(file: Path, asked: Row) -> dict[str, Any] | None:
    """What a run of an earlier call found, where it was asked for the same."""
    if not file.exists():
        return None
    kept = json.loads(file.read_text(encoding="utf-8"))
    found: dict[str, Any] | None = kept["found"] if kept["asked"] == asked else None
    return found


def _trained(game: Game, settings: Settings, games: int) -> dict[str, Any]:
    began, worked = time.perf_counter(), time.process_time()
    with assembled(settings, game.make) as run:
        curve: list[float | None] = []
        generated = left_out = 0
        for result in rounds_of(run):
            generated += answer_tokens(result.episodes)
            left_out += sum(own["steps_left_out"] for own in result.row["models"].values())
            curve.append(result.row["environment"]["raw_reward"])
            if generated >= game.tokens:
                break
        return {
            "after": game.exam(games)(run)["score"],
            "tokens": generated,
            "steps_left_out": left_out,
            "curve": curve,
            "cpu_seconds": time.process_time() - worked,
            "wall_seconds": time.perf_counter() - began,
        }


def _untrained(game: Game, request: Request) -> float:
    """The score of the embedded model as it starts, which is the same on every seed."""
    with assembled({**SHARED, **game.settings, **request.overrides}, game.make) as run:
        score: float = game.exam(request.games)(run)["score"]
    return score


def answer_tokens(episodes: Sequence[Episode]) -> int:
    """Tokens that models wrote in these games and their branches, ends of turns included."""
    return sum(
        len(decision.tokens.completion_ids)
        for episode in episodes
        for decision in _decisions(episode)
        if decision.tokens is not None
    )


def _decisions(episode: Episode) -> list[Decision]:
    """All that were drawn. Where games branch, the one that is played is among its siblings."""
    if isinstance(episode, BranchedEpisode):
        return [decision for drawn in episode.siblings for decision in drawn.decisions]
    return [step.decision for turn in episode.turns for step in turn]


def _uniform(game: Game, games: int) -> float:
    """The score of agents that pick at random."""
    score: float = game.exam(games).scripted("uniform")["score"]
    return score


def _generated(name: str, runs: Sequence[Row]) -> str:
    """Answer tokens that the game's runs were trained on: one number, or from the least on."""
    ends = [end(row["tokens"] for row in _of(runs, game=name)) for end in (min, max)]
    return " to ".join(dict.fromkeys(map(str, ends)))


def _of(runs: Sequence[Row], **which: str) -> list[Row]:
    return [row for row in runs if which.items() <= row.items()]


def _aggregated(runs: Sequence[Row], entry: str) -> Estimate:
    """The interquartile mean over seeds and games, resampled game by game."""
    scores: dict[str, list[float]] = {}
    for row in runs:
        scores.setdefault(row["game"], []).append(row[entry])
    return interquartile_mean(scores, seed=0)


def _of_game(name: str, runs: Sequence[Row]) -> dict[str, Any]:
    """How far apart the algorithms end: the best's lower end less the worst's upper end."""
    algorithms = dict.fromkeys(row["algorithm"] for row in runs)
    found = {own: _aggregated(_of(runs, game=name, algorithm=own), "after") for own in algorithms}
    best = max(found, key=lambda own: found[own].value)
    worst = min(found, key=lambda own: found[own].value)
    highest = _aggregated(_of(runs, game=name, algorithm=best), "share").value
    apart = _ends(found[best])[0] - _ends(found[worst])[1]
    return {
        "part": "game", "game": name, "best": best, "worst": worst, "highest": highest,
        "apart": apart,
    }  # fmt: skip


def _of_algorithm(name: str, runs: Sequence[Row]) -> dict[str, Any]:
    """The algorithm's line of the table."""
    own = _of(runs, algorithm=name)
    games = dict.fromkeys(row["game"] for row in own)
    return {
        "part": "algorithm",
        "algorithm": name,
        "rate": own[0]["rate"],
        **{game: _told(_aggregated(_of(own, game=game), "after"), ".2f") for game in games},
        "all": _told(_aggregated(own, "share"), ".0%"),
        "cpu_seconds": sum(row["cpu_seconds"] for row in own) / len(own),
    }


def _ends(estimate: Estimate) -> tuple[float, float]:
    return estimate.interval or (estimate.value, estimate.value)


def _interval(runs: Sequence[Row]) -> tuple[float, float, float]:
    """Of the scores after training: (interquartile mean, low, high)."""
    found = _aggregated(runs, "after")
    return found.value, *_ends(found)


def _told(estimate: Estimate, form: str) -> str:
    low, high = _ends(estimate)
    return f"{estimate.value:{form}} [{low:{form}}, {high:{form}}]"


def _by_policy(ends: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, str]]:
    """Who plays -> game -> its score."""
    found: dict[str, dict[str, str]] = {}
    for game, scores in ends.items():
        for policy, score in scores.items():
            found.setdefault(policy, {})[game] = f"{score:.2f}"
    return found


NAMED_ALGORITHMS = Claim(
    measure,
    tables=[
        Table(
            {
                "algorithm": "{algorithm}",
                "learning rate": "{rate:g}",
                **{game: f"{{{game}}}" for game in GAMES},
                "all games": "{all}",
                "CPU-s a run": "{cpu_seconds:.0f}",
            },
            where={"part": "algorithm"},
        )
    ],
    targets=[
        Target(
            "every algorithm that can see what is right ends above where it started in {game}, on "
            "every seed",
            "gain", ">", 0.0, "{:+.2f}", {"part": "run", "sees": True},
        ),
        Target(
            "no algorithm masters {game}", "highest", "<", 0.95,
            "the best comes {:.0%} of the way from uniform play to the best there is",
            {"part": "game"},
        ),
        Target(
            "the best and the worst algorithm's intervals lie apart in {game}",
            "apart", ">", 0.0, "by {:.2f}", {"part": "game"},
        ),
    ],
    legend="Seeds {seeds}: interquartile mean [95 % interval, stratified bootstrap over seeds, of "
    "which five cover about 90 %] of the share of what can be earned, in {games} games outside of "
    "training; the last two lines are one number. All games: the way from `uniform` to the best "
    "there is. Answer tokens that a run was trained on, branches counted: {tokens}.",
    seeds=(5, 6, 7, 8, 9),
    games=128,
    writes_runs=True,
    figure=Intervals("algorithm", "game", _interval, {"part": "run"}),
)  # fmt: skip
