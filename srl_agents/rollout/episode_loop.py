"""Rollouts: environments played by policies, many episodes concurrently.

Every episode is a coroutine: while one waits for a language model the others go on, and what waits
for the same model is answered in one batch. Scripted policies decide at once, and episodes among
them need no event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, TypedDict, TypeVar, Unpack

from srl_agents.episode import Episode
from srl_agents.errors import EpisodeTimeout
from srl_agents.evaluation.progress import LongWork
from srl_agents.policy import Policy, waits
from srl_agents.rollout.event_loop import finished, run
from srl_agents.rollout.game import ALL_AT_ONCE, Game, SpeaksFirst, Spectator

T = TypeVar("T")
MakeGame = Callable[..., Game]
Seats = Mapping[str, Policy] | Sequence[Mapping[str, Policy]]
"""Agent -> policy, of all episodes, or of each by itself."""


class PlaySettings(TypedDict, total=False):
    """Settings of `play_many`."""

    policy_seeds: Sequence[int] | None
    """Per episode, where every agent's own randomness comes from, so that a group of episodes may
    share one start and still differ; by default the environment's seeds."""
    speaks_first: SpeaksFirst
    """Leaders are asked before the others, and their hearers get their words the same turn."""
    reset_options: Sequence[Mapping[str, Any]] | None
    """Per episode, what the environment's reset is told."""
    names: Mapping[str, str] | Sequence[Mapping[str, str]] | None
    """Agent -> who plays it, as records say it, in all episodes or in each by itself; by default
    the policy's `name`."""
    extra: Mapping[str, Any] | None
    """Kept on every episode."""
    record_states: bool
    """Whether the environment's state() before each turn is kept too, and where a game was cut off
    that does not tell its time, the one it was left in."""
    timeout: float | None
    """Seconds in which all must be over, where somebody among the players has to be waited for;
    None waits for as long as they take."""
    in_flight: int | asyncio.Semaphore | None
    """The most episodes under way at once; None plays all of them. A semaphore bounds those of
    several calls in one event loop."""
    spectator: Spectator | None
    """Watches the first game; what it raises ends the rollout."""
    make_game: MakeGame | None
    """Constructor of the games, called like Game; by default Game itself."""


def play(
    env: Any,
    seats: Mapping[str, Policy],
    seed: int,
    *,
    policy_seed: int | None = None,
    speaks_first: SpeaksFirst = ALL_AT_ONCE,
    at_turn: Callable[[int], None] = lambda turn: None,
) -> Episode:
    """One episode of `env` from `reset(seed)`, which stays open. See `play_many`.

    `at_turn` receives the number of steps after every step. Its exceptions end the episode.
    """
    policy_seed = seed if policy_seed is None else policy_seed
    game = Game(env, seats, seed, policy_seed, speaks_first, at_turn=at_turn)
    return _from_sync(game.play(), _waits([seats]))


def play_many(
    make_env: Callable[[], Any],
    seats: Seats,
    seeds: Sequence[int],
    **settings: Unpack[PlaySettings],
) -> list[Episode]:
    """One episode per entry of `seeds`, in that order.

    `seeds[e]` goes to the e-th environment's reset. Every environment that was made is closed,
    however the games end. An agent that its info says has no say in a turn (`TO_MOVE`) is not
    asked, whoever plays it.

    A BackendError or EnvError spoils the episode it struck, in a reset too: it ends there, with
    `failure` set. An agent that no policy plays is a ValueError. Raises EpisodeTimeout after
    `timeout` seconds.

    May be called where an event loop runs, as in a notebook (see event_loop.run), which then
    stands still; `play_many_async` lets it go on.
    """
    waiting = _waits(_by_episode(seats, len(seeds)))
    return _from_sync(play_many_async(make_env, seats, seeds, **settings), waiting)


async def play_many_async(
    make_env: Callable[[], Any],
    seats: Seats,
    seeds: Sequence[int],
    **settings: Unpack[PlaySettings],
) -> list[Episode]:
    """What `play_many` gives, to be awaited; cancelled, it closes its environments."""
    policy_seeds, options = settings.get("policy_seeds"), settings.get("reset_options")
    in_flight = settings.get("in_flight")
    if isinstance(in_flight, int) and in_flight < 1:
        raise ValueError(f"in_flight is {in_flight}: give 1 or more, or None for all at once")
    names = _by_episode(settings.get("names") or {}, len(seeds))
    seated = _by_episode(seats, len(seeds))
    make_game = settings.get("make_game") or Game
    work, over = LongWork(f"playing {len(seeds)} episodes"), 0

    async def one(index: int) -> Episode:
        nonlocal over
        env = make_env()
        try:
            game = make_game(
                env,
                seated[index],
                seeds[index],
                seeds[index] if policy_seeds is None else policy_seeds[index],
                settings.get("speaks_first", ALL_AT_ONCE),
                reset_options=None if options is None else dict(options[index]),
                given_names=names[index],
                extra=dict(settings.get("extra") or {}),
                states=[] if settings.get("record_states") else None,
                at_turn=lambda turn: work.at(f"step {turn}, {over} of {len(seeds)} complete"),
                spectator=settings.get("spectator") if index == 0 else None,
            )
            return await game.play()
        finally:
            env.close()
            over += 1

    if not _waits(seated):
        return [await one(index) for index in range(len(seeds))]
    if not isinstance(in_flight, asyncio.Semaphore):
        in_flight = asyncio.Semaphore(in_flight or max(1, len(seeds)))

    async def bounded(index: int) -> Episode:
        async with in_flight:
            return await one(index)

    episodes = [asyncio.create_task(bounded(index)) for index in range(len(seeds))]
    seconds = settings.get("timeout")
    try:
        async with asyncio.timeout(seconds) as limit:
            return await asyncio.gather(*episodes)
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise EpisodeTimeout(
            f"Episode timeout: {len(seeds)} games were not all over after {seconds:g} seconds; "
            "give more time (rollout.timeout, or MultiModelConfig's episode_timeout), or "
            "fewer turns or games"
        ) from error
    finally:
        for episode in episodes:
            episode.cancel()
        await asyncio.gather(*episodes, return_exceptions=True)


def _by_episode(
    given: Mapping[str, T] | Sequence[Mapping[str, T]], count: int
) -> Sequence[Mapping[str, T]]:
    return [given] * count if isinstance(given, Mapping) else given


def _waits(seated: Iterable[Mapping[str, Policy]]) -> bool:
    return any(waits(policy) for seats in seated for policy in seats.values())


def _from_sync(coroutine: Coroutine[Any, Any, T], waiting: bool) -> T:
    return run(coroutine) if waiting else finished(coroutine)
