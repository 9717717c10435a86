"""Player actors: episodes played with published weights, in the actors and from this process."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from srl_agents.episode import Episode, ModelVersion
from srl_agents.llm.backends.chat_backend import Usage
from srl_train.config.run import RunConfig
from srl_train.engines import Engine, ModelText, RolloutSettings
from srl_train.learners.learner import model_weights
from srl_train.loading import build_backends
from srl_train.modes import MODES
from srl_train.plan import PlannedGames
from srl_train.players import build_sampling, matchmaking_of, policies_by_seats
from srl_train.publisher import WeightPublisher

if TYPE_CHECKING:
    from srl_extensions.cluster.actors import Actor


@dataclass(frozen=True)
class PlayerPublication:
    """Weights, or a version on model servers, that a model plays from."""

    number: int
    method: str
    """Method of `PlayerWorker`."""
    arguments: tuple[Any, ...]


Publications = Mapping[str, PlayerPublication]
"""Latest publication of each model, opponent pool and frozen model."""


class PlayerWorker:
    """Environments, policies and weights of a player, in its actor.

    `in_flight` limits the concurrent episodes. Models sample in the actor, or in `servers`, whose
    method `attach(config)` returns Samplers.
    """

    def __init__(
        self,
        config: RunConfig,
        make_env: Callable[[], Any],
        in_flight: int | None = None,
        servers: Any = None,
    ) -> None:
        torch.set_num_threads(config.threads)
        with closing(make_env()) as env:
            matchmaking = matchmaking_of(config, env)
            view, teams = env.unwrapped.text_view, getattr(env.unwrapped, "teams", None)
        sampling = build_sampling(config, matchmaking)
        served = None if servers is None else servers.attach(config)
        self._players = build_backends(config, make_env, trained_here=False, served=served)
        policies_of = policies_by_seats(config, make_env, self._players, view, sampling)
        policies_of(matchmaking.usual)  # Raises now for a policy that cannot be built.
        speaks_first = MODES[config.mode.name](config.mode).speaks_first(matchmaking.agents, teams)
        settings = RolloutSettings(make_env, view, speaks_first, config.rollout.timeout, in_flight)
        self._engine = Engine(settings, policies_of, self._players)
        self._loaded: dict[str, int] = {}

    def models(self) -> tuple[Mapping[str, ModelText], frozenset[str]]:
        """Return the texts and the adapters of `Players`."""
        return self._players.texts, self._players.adapters

    def play(
        self, games: PlannedGames, publications: Publications
    ) -> tuple[list[Episode], dict[str, Usage]]:
        """Load the publications that are new here, play the episodes and return them.

        The second value is the usage of each frozen model behind an API in these episodes.
        """
        for name, publication in publications.items():
            if self._loaded.get(name) != publication.number:
                getattr(self, f"_{publication.method}")(name, *publication.arguments)
                self._loaded[name] = publication.number
        episodes = self._engine.play(games)
        usage = {}
        for name, model in self._players.chat_models.items():
            usage[name], model.usage = model.usage, Usage()
        return episodes, usage

    def _publish(self, name: str, version: int | str, weights: Any) -> None:
        self._players.publisher.publish(name, version, fetched(weights))

    def _serve(self, name: str, version: ModelVersion, served_as: str) -> None:
        backend: Any = self._players.backends[name]
        backend.serve(version.adapter, version, served_as)


class PlayerPool:
    """Player actors of a run, and the publications that their next episodes use.

    Each share of episodes is sent with all publications, so a restarted player plays the same
    episodes from the same weights. All shares of a rollout use the same publications. If possible,
    one player plays all `group_size` episodes of a group.
    """

    def __init__(self, actors: Sequence[Actor], group_size: int) -> None:
        self.usage: dict[str, Usage] = {}
        self._actors, self._group_size = actors, group_size
        self._threads = [ThreadPoolExecutor(1, actor.name) for actor in actors]
        self._publications: dict[str, PlayerPublication] = {}
        self._published = 0
        self._open: dict[Future[list[Episode]], Publications] = {}
        self._changed = threading.Lock()

    def models(self) -> list[Future[tuple[Mapping[str, ModelText], frozenset[str]]]]:
        """Start all players; each returns the texts and the adapters of `Players`."""
        return [
            thread.submit(actor.call, "models")
            for thread, actor in zip(self._threads, self._actors, strict=True)
        ]

    def publish(self, name: str, method: str, *arguments: Any) -> None:
        """Use a publication of `name` for all episodes that are requested from now on.

        An error of the publication is raised by the next episodes.
        """
        with self._changed:
            self._published += 1
            publication = PlayerPublication(self._published, method, arguments)
            self._publications = {**self._publications, name: publication}

    def play(self, games: PlannedGames) -> list[Future[list[Episode]]]:
        """Request episodes, and return each player's share in order."""
        with self._changed:
            shares = shares_of(len(games), len(self._actors), self._group_size)
            requested = [
                thread.submit(self._play, actor, games.part(share), self._publications)
                for thread, actor, share in zip(self._threads, self._actors, shares, strict=True)
                if share
            ]
            self._open |= dict.fromkeys(requested, self._publications)
        for share in requested:
            share.add_done_callback(self._end)
        return requested

    async def drained(self, served_as: str) -> None:
        """Wait until no current episode samples from this name of the servers."""
        with self._changed:
            users = [
                asyncio.wrap_future(share)
                for share, used in self._open.items()
                if any(served_as in one.arguments for one in used.values())
            ]
        # The code that requested the shares receives their errors.
        await asyncio.gather(*users, return_exceptions=True)

    def close(self) -> None:
        """End the actors; waiting shares are cancelled."""
        for thread, actor in zip(self._threads, self._actors, strict=True):
            thread.shutdown(wait=False, cancel_futures=True)
            actor.stop()

    def _play(self, actor: Actor, games: PlannedGames, publications: Publications) -> list[Episode]:
        episodes: list[Episode]
        episodes, usage = actor.call("play", games, publications)
        with self._changed:
            for name, added in usage.items():
                self.usage.setdefault(name, Usage()).add_usage(added)
        return episodes

    def _end(self, share: Future[list[Episode]]) -> None:
        with self._changed:
            self._open.pop(share, None)


class RayPublisher(WeightPublisher):
    """Publishes weights to all players, from one copy in the object store."""

    def __init__(self, pool: PlayerPool, put: Callable[[Any], Any]) -> None:
        self._pool, self._put = pool, put

    def publish(self, name: str, version: int | str, tensors: Mapping[str, Tensor]) -> None:
        """Sample new episodes of `name` from these weights."""
        self._pool.publish(name, "publish", version, self._put(model_weights(tensors)))


class PlayerSampler:
    """Players as the sampler of one base, which is `name` in records and `base` on the servers."""

    def __init__(self, pool: PlayerPool, name: str, base: str, stop_ids: frozenset[int]) -> None:
        self.name, self.base, self.stop_ids = name, base, stop_ids
        self.drained = pool.drained
        self._pool = pool

    def serve(self, adapter: str | None, version: ModelVersion, served_as: str) -> None:
        """Sample new episodes of an adapter (None: the base) from `served_as`."""
        self._pool.publish(adapter or self.base, "serve", version, served_as)


def shares_of(episodes: int, players: int, group: int) -> list[range]:
    """Return one contiguous share of the episodes' numbers per player, as equal as possible.

    Shares consist of whole groups, unless there are fewer groups than players.
    """
    unit = group if episodes % group == 0 and episodes // group >= players else 1
    units = episodes // unit
    cuts = [unit * (units * number // players) for number in range(players + 1)]
    return [range(start, stop) for start, stop in pairwise(cuts)]


def fetched(value: Any) -> Any:
    """Return the value of a Ray reference, and any other value unchanged."""
    ray = sys.modules.get("ray")  # Without Ray, which is an extra, there are no references.
    return ray.get(value) if ray is not None and isinstance(value, ray.ObjectRef) else value
