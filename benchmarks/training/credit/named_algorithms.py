"""Named algorithms on three games that none of them masters, at equal numbers of answer tokens.

The key game in rough weather asks whose act it was; the mazes, whose levels are new every time, ask
for the way; the negotiation asks two agents for a deal that serves both. One embedded model plays
all agents that learn. Each algorithm has its published settings, those of its preset
(srl_train.config.learning.presets), and one learning rate, chosen on a seed that is not measured.
"""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.records import circumstances
from benchmarks.training.claim import Claim, Intervals, Request, Result, Row, Table, Target
from benchmarks.training.credit.claims import opened
from benchmarks.training.credit.key_game import AGENTS, HOLDER, KeyGame
from benchmarks.training.runs import Settings
from benchmarks.training.unseen.exam import HeldOut
from srl_agents.episode import Episode
from srl_agents.evaluation.aggregates import Estimate, interquartile_mean
from srl_envs.games.maze.env import Maze
from srl_envs.games.negotiation.env import SocialNegotiation
from srl_train.config import yaml_file
from srl_train.engine.assemble import assemble
from srl_train.engine.rounds import run_round
from srl_train.engine.run_files import write_whole

TOKENS = 5_000
"""Answer tokens that a run is trained on; the round in which they are reached is the last."""
RATES = (1e-3, 3e-3)
"""Learning rates that were tried for each algorithm, on the development seed."""
ALGORITHMS: Mapping[str, Settings] = {
    **{
        name: {"preset": name}
        for name in ("grpo", "dr_grpo", "dapo", "gspo", "rloo", "reinforce_plus_plus", "magrpo")
    },
    "mappo": {"preset": "mappo"},
    "agent_turn": {"credit.name": "agent_turn"},
}
"""Name -> the settings that make it; agent_turn has the groups of AT-GRPO without its branches."""
CHOSEN: Mapping[str, float] = {
    "grpo": 1e-3, "dr_grpo": 1e-3, "dapo": 3e-3, "gspo": 1e-3, "rloo": 1e-3,
    "reinforce_plus_plus": 3e-3, "magrpo": 3e-3, "mappo": 3e-3, "agent_turn": 3e-3,
}  # fmt: skip
"""Algorithm -> learning rate in all games: of RATES, the one that came further from uniform play to
the best known on seed 100, in the key game and the mazes together."""
SHARED: Settings = {
    "models.count": 1,
    "rollout.group_size": 8,
    "rollout.groups_per_round": 2,
}
BEFORE = "before training"
UNSEEN = 2**31  # training draws its games' seeds below it


@dataclass(frozen=True)
class Game:
    """One game of the table: how it is set up, and how well it was played."""

    settings: Settings
    make: Callable[[], Any]
    """The environment that is trained in."""
    exam: Callable[[int], HeldOut]
    """Number of games -> games that nobody trains in; their score is one number."""
    scripted: Sequence[str]
    """Policies beside `uniform` that need no training."""
    known: float | None = None
    """The best score there is, where the rules tell it."""


def _returned(episodes: Sequence[Episode]) -> dict[str, Any]:
    totals = [total for episode in episodes for total in episode.returns().values()]
    return {"score": sum(totals) / len(totals)}


def _opened(episodes: Sequence[Episode]) -> dict[str, Any]:
    return {"score": opened(episodes)}


def _held_out(
    make: Callable[[], Any], score: Callable[[Sequence[Episode]], dict[str, Any]]
) -> Callable[[int], HeldOut]:
    return lambda games: HeldOut(make, range(UNSEEN, UNSEEN + games), score)


CROWD = 1.0
MAZES: Settings = {
    "width": 5, "height": 5, "loop_share": 0.2, "min_path": 4, "max_cycles": 12,
}  # fmt: skip
_KEY = functools.partial(KeyGame, CROWD)
_MAZE = functools.partial(Maze, **MAZES)
_NEGOTIATION = functools.partial(SocialNegotiation, max_cycles=4)
GAMES: Mapping[str, Game] = {
    "key": Game(
        {
            **{f"seats.agent_{agent}": "uniform" for agent in range(AGENTS) if agent != HOLDER},
            "mode.name": "raw",
            "models.constrained": True,
        },
        _KEY,
        _held_out(_KEY, _opened),
        (),
        known=1.0,
    ),
    "maze": Game(
        {"mode.name": "raw", "models.constrained": True},
        _MAZE,
        _held_out(functools.partial(_MAZE, split="test"), _returned),
        ("greedy_walker", "explorer"),
    ),
    "negotiation": Game(
        {
            "mode.name": "cooperative",
            "mode.cooperation_strength": 1.0,
            "models.constrained": True,
        },
        _NEGOTIATION,
        _held_out(_NEGOTIATION, _returned),
        ("conceder", "reciprocator", "boulware", "stubborn"),
    ),
}


def measure(
    request: Request,
    algorithms: Mapping[str, Settings] = ALGORITHMS,
    games: Mapping[str, Game] = GAMES,
    tokens: int = TOKENS,
) -> Result:
    """One row per run, then one per game; algorithms and scripted policies are told below.

    A run's row is written into the request's folder as soon as it is there, and read from it where
    the same run was measured before, at the same commit.
    """
    ends = {
        name: {BEFORE: _untrained(game, request), **_scripted(game, request.games)}
        for name, game in games.items()
    }
    commit = circumstances()["commit"]
    runs: list[dict[str, Any]] = []
    for seed in request.seeds:
        for algorithm, own in algorithms.items():
            for name, game in games.items():
                settings = {
                    **SHARED, **game.settings, **own, "seed": seed, "rounds": tokens,
                    "algorithm.learning_rate": CHOSEN[algorithm], **request.overrides,
                }  # fmt: skip
                file = request.folder / f"{name}_{algorithm}_{seed}.json"
                asked = {
                    "settings": settings, "tokens": tokens, "games": request.games,
                    "commit": commit,
                }  # fmt: skip
                found = _read(file, asked)
                if found is None:
                    found = _trained(game, settings, request.games, tokens)
                    file.parent.mkdir(parents=True, exist_ok=True)
                    write_whole(file, json.dumps({"asked": asked, "found": found}))
                low, high = ends[name]["uniform"], max(ends[name].values())
                share = (found["after"] - low) / (high - low)
                runs.append({
                    "part": "run", "game": name, "algorithm": algorithm, "seed": seed,
                    "rate": settings["algorithm.learning_rate"], **found,
                    "gain": found["after"] - ends[name][BEFORE], "share": share,
                })  # fmt: skip
    references = [
        *(_of_algorithm(name, runs) for name in algorithms),
        *({"part": "algorithm", "algorithm": p, **own} for p, own in _by_policy(ends).items()),
    ]
    generated = [row["tokens"] for row in runs]
    facts = {"tokens": tokens, "least": min(generated), "most": max(generated)}
    return Result([*runs, *(_of_game(name, runs) for name in games)], references, facts)


def _read(file: Path, asked: Row) -> dict[str, Any] | None:
    """What a run of an earlier call found, where it was asked for the same."""
    if not file.exists():
        return None
    kept = json.loads(file.read_text(encoding="utf-8"))
    found: dict[str, Any] | None = kept["found"] if kept["asked"] == asked else None
    return found


def _trained(game: Game, settings: Settings, games: int, tokens: int) -> dict[str, Any]:
    began, worked = time.perf_counter(), time.process_time()
    run = assemble(yaml_file.from_tree({}, settings), game.make)
    with closing(run.players):
        curve: list[float | None] = []
        generated = left_out = 0
        while generated < tokens:
            result = run_round(run, run.next_round)
            run.next_round += 1
            generated += answer_tokens(result.episodes)
            left_out += sum(own["steps_left_out"] for own in result.row["models"].values())
            curve.append(result.row["environment"]["raw_reward"])
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
    settings = {**SHARED, **game.settings, **request.overrides}
    run = assemble(yaml_file.from_tree({}, settings), game.make)
    with closing(run.players):
        score: float = game.exam(request.games)(run)["score"]
    return score


def answer_tokens(episodes: Sequence[Episode]) -> int:
    """Tokens that models wrote in these games, ends of turns included."""
    return sum(
        len(step.decision.tokens.completion_ids)
        for episode in episodes
        for turn in episode.turns
        for step in turn
        if step.decision.tokens is not None
    )


def _scripted(game: Game, games: int) -> dict[str, float]:
    """Policy -> its score in all agents' places."""
    exam = game.exam(games)
    ends = {name: exam.scripted(name)["score"] for name in ("uniform", *game.scripted)}
    return ends if game.known is None else {**ends, "the best there is": game.known}


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
    """Scripted policy -> game -> its score, of the games that it plays."""
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
            "every algorithm ends above where it started in {game}, on every seed",
            "gain", ">", 0.0, "{:+.2f}", {"part": "run"},
        ),
        Target(
            "no algorithm masters {game}", "highest", "<", 0.95,
            "the best comes {:.0%} of the way from uniform play to the best known",
            {"part": "game"},
        ),
        Target(
            "the best and the worst algorithm's intervals lie apart in {game}",
            "apart", ">", 0.0, "by {:.2f}", {"part": "game"},
        ),
    ],
    legend="Seeds {seeds}: interquartile mean [95 % interval, stratified bootstrap over seeds]; "
    "scripted lines are one number. key: share of games in which the key turns; maze and "
    "negotiation: return per agent; in {games} games that nobody trains in. All games: the way "
    "from `uniform` to the best line that needs no training. A run ends with the round in which it "
    "has generated {tokens} answer tokens ({least} to {most}).",
    seeds=(0, 1, 2, 3, 4),
    games=128,
    writes_runs=True,
    figure=Intervals("algorithm", "game", _interval, {"part": "run"}),
)  # fmt: skip
