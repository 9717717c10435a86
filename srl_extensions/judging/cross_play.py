"""Cross-play: each player against each player, in each place, from the same starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from srl_agents.episode import Episode
from srl_agents.policy import Policy
from srl_agents.seeding import MOST, generator, of_games
from srl_envs.errors import EnvConfigError
from srl_envs.validation import whole_number
from srl_extensions.judging.episodes import UNRECORDED, EpisodePlan, EpisodeRunner
from srl_extensions.judging.scenarios import DRAWN


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
    """Mean raw return of the agents of `second` (see `play_cross`); None for a failed game."""
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
