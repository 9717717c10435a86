"""Cross-play: each player against each player, in each place, from the same starts; rankings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from srl_agents.episode import Episode
from srl_agents.evaluation.bootstrap import bootstrap_interval
from srl_agents.evaluation.nash_averaging import Floats, margins, nash_average, square
from srl_agents.policy import Policy
from srl_agents.seeding import MOST, generator, of_games
from srl_envs.errors import EnvConfigError
from srl_envs.validation import whole_number
from srl_extensions.judging.episodes import UNRECORDED, EpisodePlan, EpisodeRunner
from srl_extensions.judging.scenarios import DRAWN

NEUTRAL = 0.01
"""Probability with which a worse mutant replaces the resident in alpha-rank. Its limit for
strong selection is 0; a value above 0 makes every player reachable."""


@dataclass(frozen=True)
class Arena:
    """Environment for two players: one controls a place (a group of agents), one all others."""

    name: str
    make: Callable[[], Any]
    """Constructor of the environment, a PettingZoo ParallelEnv."""
    agents: tuple[str, ...]
    places: tuple[tuple[str, ...], ...]
    """Groups of agents that a player may control: teams, or single agents."""

    @property
    def two_sided(self) -> bool:
        """True if there are exactly two places, which include all agents."""
        return len(self.places) == 2 and sorted(self.agents) == sorted(sum(self.places, ()))


@dataclass(frozen=True)
class PairGame:
    """Result of one episode of two players; a failed one has no returns."""

    first: str
    """Name of the player that controls the place."""
    second: str
    """Name of the player that controls all other agents."""
    place: int
    """Index in `Arena.places`."""
    start: int
    """Index of the start, from 0. Games with the same start have the same seeds."""
    seed: int
    """Seed of the environment's reset."""
    first_return: float | None
    """Mean raw return of the agents of `first` (see `play_cross`); None for a failed game."""
    second_return: float | None
    """Likewise of the agents of `second`."""
    turns: int
    """Number of steps."""
    winner: Literal["first", "second", "draw"] | None = None
    """None for a failed game, no named winner, or a winning team with agents of both players."""
    failure: str | None = None
    """Error that ended the game, or None."""


def arena(name: str, make: Callable[[], Any]) -> Arena:
    """Return an arena in which each team of the environment is a place for one player.

    Args:
        name: Name of the arena.
        make: Constructor of a PettingZoo ParallelEnv. If the environment has no attribute `teams`
            (agent to team), each agent is a place.

    Raises:
        EnvConfigError: The environment has one agent or one team.
    """
    with closing(make()) as env:
        agents = tuple(env.possible_agents)
        teams = getattr(env.unwrapped, "teams", None) or {agent: agent for agent in agents}
    places: dict[str, list[str]] = {}
    for agent in agents:
        places.setdefault(teams[agent], []).append(agent)
    if len(places) < 2:
        raise EnvConfigError(
            f"{name} has {'one team' if len(agents) > 1 else 'one agent'}, and cross-play needs "
            "two or more: score each player with srl eval"
        )
    return Arena(name, make, agents, tuple(map(tuple, places.values())))


def play_cross(
    arena: Arena,
    players: Mapping[str, Mapping[str, Policy]],
    episodes: int = 16,
    seed: int = 0,
    *,
    runner: EpisodeRunner = UNRECORDED,
    partners: Sequence[str] | None = None,
) -> list[PairGame]:
    """Play all ordered pairs of players, self-play included, in each place from the same starts.

    The first player of a pair controls the place, the second all other agents. Two-sided arenas and
    self-play use the first place only. With three or more places, both returns of self-play are
    means over all agents.

    Args:
        arena: Environment and places.
        players: Player to agent to policy, for all agents of the arena.
        episodes: Number of starts.
        seed: Seed of all environments and policies.
        runner: Limits of the episodes, and the folder of their records.
        partners: Second players of the pairs; None for all players.

    Returns:
        All games, by pair, place and start. A failed game has its failure, and None as returns.

    Raises:
        ValueError: There are fewer than two players, or `episodes` or `seed` is invalid.
        ConfigError, EpisodeError: As in `runner.play`.
    """
    if len(players) < 2:
        raise ValueError(f"players must be at least two, got {len(players)}")
    episodes = whole_number("episodes", episodes, low=1)
    seed = whole_number("seed", seed, low=0, high=MOST)
    env_seeds, policy_seeds = of_games(generator(seed, "cross_play"), episodes)
    with closing(arena.make()) as env:
        teams = getattr(env.unwrapped, "teams", None) or {}
    places = range(1 if arena.two_sided else len(arena.places))
    schedule = [
        (first, second, place)
        for first in players
        for second in (players if partners is None else partners)
        for place in places
        if first != second or not place
    ]
    plans = []
    for first, second, place in schedule:
        own = arena.places[place]
        player_of = {agent: first if agent in own else second for agent in arena.agents}
        plans += [
            EpisodePlan(
                arena.make,
                {agent: players[player][agent] for agent, player in player_of.items()},
                env_seed,
                policy_seed,
                names=player_of,
                extra={"arena": arena.name, "first": first, "second": second, "place": place},
            )
            for env_seed, policy_seed in zip(env_seeds, policy_seeds, strict=True)
        ]
    games = []
    for number, episode in enumerate(runner.play(arena.name, plans)):
        first, second, place = schedule[number // episodes]
        held: Sequence[str] = arena.places[place]
        rest: Sequence[str] = [agent for agent in arena.agents if agent not in held]
        if first == second and len(arena.places) > 1 and not arena.two_sided:
            held = rest = arena.agents  # One game of self-play counts for all places.
        returns, complete = episode.returns(), episode.failure is None
        own_return, other_return = (
            float(np.mean([returns[agent] for agent in side])) if complete else None
            for side in (held, rest)
        )
        games.append(
            PairGame(
                first,
                second,
                place,
                start=number % episodes,
                seed=episode.seed,
                first_return=own_return,
                second_return=other_return,
                turns=len(episode.turns),
                winner=_winner(episode, held, rest, teams) if complete else None,
                failure=episode.failure,
            )
        )
    return games


def _winner(
    episode: Episode, held: Sequence[str], rest: Sequence[str], teams: Mapping[str, str]
) -> Literal["first", "second", "draw"] | None:
    ends = {agent: episode.end_of(agent) for agent in episode.seats}
    named = next((end["winner"] for end in ends.values() if end.get("winner") is not None), None)
    if named is None:
        return None
    if named in DRAWN:
        return "draw"
    first, second = (
        any(named in (agent, teams.get(agent), ends[agent].get("side")) for agent in side)
        for side in (held, rest)
    )
    if first == second:
        return None
    return "first" if first else "second"


def results(
    arena: Arena, games: Sequence[PairGame], players: Sequence[str], seed: int
) -> dict[str, Any]:
    """Compute the results of all games of an arena; errors as `rankings`.

    Args:
        arena: Arena of the games.
        games: Games of `play_cross`.
        players: Names of the players, in the order of the matrix.
        seed: Seed of the bootstrap.

    Returns:
        Plain data: "name", "places", "two_sided", "players", "matrix" (result of `cells`),
        "rankings" (result of `rankings`; None if a pair has no complete game), and "games".
    """
    returns_RCE = returns_by_start(games, players, arena.two_sided)
    complete = not np.isnan(returns_RCE).all(axis=2).any()
    return {
        "name": arena.name,
        "places": [list(place) for place in arena.places],
        "two_sided": arena.two_sided,
        "players": list(players),
        "matrix": cells(returns_RCE, seed),
        "rankings": rankings(np.nanmean(returns_RCE, axis=2), players, games) if complete else None,
        "games": [asdict(game) for game in games],
    }


def returns_by_start(games: Sequence[PairGame], players: Sequence[str], two_sided: bool) -> Floats:
    """Return the mean return of the row's player with the column's player from each start.

    The means are over complete games, in an array of shape (row, column, start), NaN without any. A
    game of a two-sided arena counts for both orders of its players. `games` is not empty.
    """
    index = {name: number for number, name in enumerate(players)}
    size = len(players), len(players), 1 + max(game.start for game in games)
    sums, counts = np.zeros(size), np.zeros(size)
    for game in games:
        if game.first_return is None or game.second_return is None:
            continue
        first, second = index[game.first], index[game.second]
        sums[first, second, game.start] += game.first_return
        counts[first, second, game.start] += 1
        if two_sided:
            sums[second, first, game.start] += game.second_return
            counts[second, first, game.start] += 1
    returns_RCE: Floats = np.full(size, np.nan)
    np.divide(sums, counts, out=returns_RCE, where=counts > 0)
    return returns_RCE


def cells(returns_RCE: Floats, seed: int) -> list[list[dict[str, Any]]]:
    """Return the payoff matrix as plain data, from the array of `returns_by_start`.

    Each row is a list of cells. A cell has the "mean" over starts (None if all games failed) and
    its 95 % bootstrap "interval" over starts, (low, high), with this seed (None below two starts).
    """

    def cell(returns_E: Floats) -> dict[str, Any]:
        known = returns_E[np.isfinite(returns_E)]
        return {
            "mean": float(known.mean()) if len(known) else None,
            "interval": bootstrap_interval(known.tolist(), seed),
        }

    return [[cell(returns_E) for returns_E in row] for row in returns_RCE]


def rankings(
    payoffs_NN: Floats, players: Sequence[str], games: Sequence[PairGame]
) -> dict[str, dict[str, float | None]]:
    """Return player -> its rankings, from games and mean returns of the row's player.

    "mean_return" is the mean return with all other players, "won" the share of games won against
    them that name a winner (a draw is half a win; None without any). The others are based on the
    row's return minus the column's: "alpha_rank" and "nash_weight" are its probabilities, and
    "nash_value" is half its mean lead over players drawn by "nash_weight". Errors are those of
    `nash_average`.
    """
    shares, (weights, values) = alpha_rank(payoffs_NN), nash_average(payoffs_NN)
    others = (payoffs_NN.sum(axis=1) - payoffs_NN.diagonal()) / (len(players) - 1)
    points: dict[str, list[float]] = {name: [] for name in players}
    for game in games:
        if game.winner is not None and game.first != game.second:
            first = {"first": 1.0, "second": 0.0, "draw": 0.5}[game.winner]
            points[game.first].append(first)
            points[game.second].append(1.0 - first)
    return {
        name: {
            "mean_return": float(others[place]),
            "won": float(np.mean(points[name])) if points[name] else None,
            "alpha_rank": float(shares[place]),
            "nash_weight": float(weights[place]),
            "nash_value": float(values[place]),
        }
        for place, name in enumerate(players)
    }


def alpha_rank(payoffs_NN: ArrayLike) -> Floats:
    """Return the share of each player in the stationary distribution of α-Rank, shape (player,).

    `payoffs_NN` are payoffs of the row's player against the column's. The method has one population
    with local selection, near the limit of strong selection: a worse mutant wins in 1 % of cases.
    Only the order of two payoffs counts (Omidshafiei et al. 2019). Errors as in `square`.
    """
    payoffs = square(payoffs_NN)
    lead = margins(payoffs).T  # [resident, mutant]
    fixation = np.where(lead > 0, 1.0 - NEUTRAL, np.where(lead < 0, NEUTRAL, 0.5))
    moves = fixation / (len(payoffs) - 1)
    np.fill_diagonal(moves, 0.0)
    np.fill_diagonal(moves, 1.0 - moves.sum(axis=1))
    equations = np.vstack([moves.T - np.eye(len(moves)), np.ones(len(moves))])
    shares: Floats = np.linalg.lstsq(equations, np.eye(len(moves) + 1)[-1], rcond=None)[0]
    positive = np.clip(shares, 0.0, None)
    return np.asarray(positive / positive.sum())
