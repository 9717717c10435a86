"""Results of a cross-play as plain data: matrix, gap, ratings, rankings; and their files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from srl_agents.errors import ResultsError
from srl_agents.evaluation.population.alpha_rank import alpha_rank
from srl_agents.evaluation.population.arena import Arena
from srl_agents.evaluation.population.cross_play import Game
from srl_agents.evaluation.population.nash_averaging import nash_average
from srl_agents.evaluation.population.payoffs import Floats, cells, gaps, means, returns_by_start
from srl_agents.evaluation.population.ratings import Rated, can_rate, matches_of, rate
from srl_envs.errors import DocumentError
from srl_envs.records import checked, read_record
from srl_envs.untrusted import read_bytes, read_json

SCHEMA_VERSION = 1
SEVERAL = "winners, elsewhere returns with the same partners"


@dataclass(frozen=True)
class Played:
    """The games of one arena."""

    arena: str
    players: tuple[str, ...]
    two_sided: bool
    games: tuple[Game, ...]


def results(
    arena: Arena, games: Sequence[Game], groups: Mapping[str, str], seed: int
) -> dict[str, Any]:
    """What the games of all players (those of `groups`, player -> group) came to.

    "matrix" holds the rows' raw returns; "normalised" each player's self-play between uniform play
    (0) and the optimum (1), where the environment knows both. Rankings are None where a pair has
    no game that came to its end, ratings without OpenSkill.
    """
    players = list(groups)
    returns_RCE = returns_by_start(games, players, arena.two_sided)
    matrix = means(returns_RCE)
    return {
        "name": arena.name,
        "places": [list(place) for place in arena.places],
        "two_sided": arena.two_sided,
        "players": players,
        "matrix": [
            [asdict(one) for one in row] for row in cells(games, players, arena.two_sided, seed)
        ],
        "gaps": [asdict(gap) for gap in gaps(returns_RCE, players, groups, seed)],
        "ratings": asdict(rated(games, players, arena.two_sided, seed)) if can_rate() else None,
        "rankings": None if matrix is None else rankings(matrix, players),
        "normalised": normalised(arena, games, players),
        "failed": [
            {"first": one.first, "second": one.second, "start": one.start, "failure": one.failure}
            for one in games
            if one.failure is not None
        ],
        "games": [asdict(game) for game in games],
    }


def rated(games: Sequence[Game], players: Sequence[str], two_sided: bool, seed: int) -> Rated:
    """The players' ratings by these games."""
    by, matches = matches_of(games, two_sided)
    return rate(players, matches, by, seed)


def rated_together(played: Sequence[Played], seed: int) -> Rated:
    """The players' ratings by the games of several arenas, which are one pool of matches."""
    players = dict.fromkeys(name for one in played for name in one.players)
    found = [matches_of(one.games, one.two_sided) for one in played]
    compared = {by for by, _ in found}
    matches = [match for _, own in found for match in own]
    return rate(list(players), matches, compared.pop() if len(compared) == 1 else SEVERAL, seed)


def read_played(path: Path) -> list[Played]:
    """The games in a results.json of `srl crossplay`.

    Raises ResultsError for a file that is none, or of another schema version.
    """
    try:
        record = read_json(read_bytes(path))
    except DocumentError as error:
        raise ResultsError(f"{path}: {error}") from error
    except OSError as error:
        raise ResultsError(
            f"cannot read {path}: {error.strerror}: give a folder that srl crossplay wrote, or its "
            "results.json"
        ) from error
    version = record.get("schema_version") if isinstance(record, dict) else None
    if version != SCHEMA_VERSION or "arenas" not in record:
        raise ResultsError(
            f"{path} holds no results of cross-play that this release reads (schema version "
            f"{version!r}, read is {SCHEMA_VERSION}): give a results.json of srl crossplay"
        )
    try:
        return [_played(one) for one in checked(list, record["arenas"])]
    except (LookupError, TypeError, ValueError) as error:
        raise ResultsError(
            f"{path} lacks or mistypes a field: {type(error).__name__}: {error!s:.200}"
        ) from error


def _played(record: Any) -> Played:
    """The games of one arena; whom they name are its players."""
    played = read_record(Played, {**record, "arena": record["name"]})
    for game in played.games:
        for who in (game.first, game.second):
            if who not in played.players:
                raise ValueError(f"{who!r:.80} is none of the players")
        if game.failure is None and None in (game.first_return, game.second_return):
            raise ValueError(f"the game from seed {game.seed} has no returns, and no failure")
    return played


def rankings(matrix: Floats, players: Sequence[str]) -> dict[str, dict[str, float]]:
    """Player -> its share by alpha-rank, and its weight and value by Nash averaging, which hold in
    intransitive games too."""
    shares, average = alpha_rank(matrix), nash_average(matrix)
    return {
        name: {"alpha_rank": float(share), "nash_weight": float(weight), "nash_value": float(value)}
        for name, share, weight, value in zip(
            players, shares, average.weights, average.values, strict=True
        )
    }


def normalised(
    arena: Arena, games: Sequence[Game], players: Sequence[str]
) -> dict[str, float] | None:
    """Player -> (its mean reward per agent and turn with itself - uniform play's) / (the optimum -
    uniform play's); None where the environment does not know both."""
    with closing(arena.make()) as env:
        known: Mapping[str, float] = getattr(env.unwrapped, "baselines", dict)()
    if not {"uniform", "optimum"} <= known.keys() or known["optimum"] == known["uniform"]:
        return None
    total, found = len(arena.agents), {}
    for name in players:
        per_turn = [
            (size * game.first_return + (total - size) * game.second_return) / total / game.turns
            for game in games
            if game.first == game.second == name
            and game.first_return is not None
            and game.second_return is not None
            and (size := len(arena.places[game.place]))
            and game.turns
        ]
        if per_turn:
            earned = float(np.mean(per_turn))
            found[name] = (earned - known["uniform"]) / (known["optimum"] - known["uniform"])
    return found
