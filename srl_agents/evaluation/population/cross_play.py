"""Cross-play: every player with every player, in every place, from the same starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from srl_agents.episode import Episode
from srl_agents.evaluation.population.arena import Arena
from srl_agents.evaluation.scenarios import DRAWN, LONG_AFTER
from srl_agents.policy import Policy
from srl_agents.rollout import play_many
from srl_agents.seeding import MOST, generator, of_games
from srl_envs.validation import whole_number


@dataclass(frozen=True)
class Game:
    """What came of one game. Returns are raw, per agent and episode."""

    first: str
    """Who held the agents of the place."""
    second: str
    """Who held all others."""
    place: int
    """Index of the arena's place."""
    start: int
    """Number of the start; games of one start share all their seeds."""
    seed: int
    """Of the environment's reset."""
    first_return: float | None
    """None for a failed game."""
    second_return: float | None
    turns: int
    winner: Literal["first", "second", "draw"] | None = None
    """None where the environment names nobody."""
    failure: str | None = None


def play_cross(
    arena: Arena,
    players: Mapping[str, Mapping[str, Policy]],
    episodes: int = 16,
    seed: int = 0,
    *,
    at_game: Callable[[Game, Episode], None] = lambda game, episode: None,
) -> list[Game]:
    """Every player with every player (and with itself), from the same `episodes` starts.

    `players`: name -> agent -> policy, for every agent of the arena: what the player holds of them
    is played by these. Each pair meets in every place. Where the two sides are places of one
    another, a game stands for both orders of its players, and is played once; a player with itself
    is one game per start. Failed games are kept, with their failure.

    `at_game` is told every game as it ends. Raises ValueError for fewer than two players, for less
    than one episode and for a wrong seed.
    """
    if len(players) < 2:
        raise ValueError(f"cross-play of {len(players)} player(s): give two or more")
    episodes = whole_number("episodes", episodes, low=1)
    seed = whole_number("seed", seed, low=0, high=MOST)
    env_seeds, policy_seeds = of_games(generator(seed, "cross_play"), episodes)
    with closing(arena.make()) as env:
        teams = getattr(env.unwrapped, "teams", None) or {}
    games = []
    for first, second, place in _schedule(arena, list(players)):
        held = set(arena.places[place])
        holder = {agent: first if agent in held else second for agent in arena.agents}
        played = play_many(
            arena.make,
            {agent: players[who][agent] for agent, who in holder.items()},
            env_seeds,
            policy_seeds=policy_seeds,
            reset_options=[{"episode": LONG_AFTER}] * episodes,
            names=holder,
            extra={"arena": arena.name, "first": first, "second": second, "place": place},
        )
        for start, episode in enumerate(played):
            game = _game(arena, first, second, place, start, episode, teams)
            at_game(game, episode)
            games.append(game)
    return games


def _schedule(arena: Arena, players: Sequence[str]) -> Iterator[tuple[str, str, int]]:
    """(who holds the place, who holds the others, the place), each game once."""
    places = range(1 if arena.two_sided else len(arena.places))
    for first in players:
        for second in players:
            yield from ((first, second, place) for place in places if first != second or not place)


def _game(
    arena: Arena,
    first: str,
    second: str,
    place: int,
    start: int,
    episode: Episode,
    teams: Mapping[str, str],
) -> Game:
    held = arena.places[place]
    rest = [agent for agent in arena.agents if agent not in held]
    if first == second and len(arena.places) > 1 and not arena.two_sided:  # one for all places
        held = rest = list(arena.agents)  # type: ignore[assignment]
    whole = episode.failure is None
    returns = episode.returns()
    return Game(
        first,
        second,
        place,
        start,
        episode.seed,
        float(np.mean([returns[agent] for agent in held])) if whole else None,
        float(np.mean([returns[agent] for agent in rest])) if whole else None,
        len(episode.turns),
        _winner(episode, held, rest, teams) if whole else None,
        episode.failure,
    )


def _winner(
    episode: Episode, held: Sequence[str], rest: Sequence[str], teams: Mapping[str, str]
) -> Literal["first", "second", "draw"] | None:
    """Who won, where the game names an agent, team or side that one player held alone."""
    ends: Mapping[str, Mapping[str, Any]] = {
        agent: episode.end_of(agent) for agent in episode.seats
    }
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
