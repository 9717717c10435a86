"""Ray engine: a run's episodes and updates in player and learner actors."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from torch import Tensor

from srl_agents.episode import Episode, ModelVersion
from srl_agents.llm import tiny
from srl_agents.llm.backends import background_loop
from srl_agents.llm.backends.chat_backend import Usage
from srl_agents.matchmaking import Matchmaking
from srl_envs.tables import Plugin
from srl_extensions.cluster.learners import LearnerWorker, RemoteLearner
from srl_extensions.cluster.players import PlayerWorker, Publications
from srl_train.build import Parts
from srl_train.config.engine import RayEngineConfig
from srl_train.config.run import RunConfig
from srl_train.engines import Engine, ModelText, Players, RolloutSettings
from srl_train.errors import ConfigError
from srl_train.learners.learner import Learner, model_weights
from srl_train.opponent_pool import OpponentPool
from srl_train.plan import PlannedGames
from srl_train.player_names import TINY
from srl_train.publisher import WeightPublisher

if TYPE_CHECKING:
    from srl_extensions.cluster.actors import Actor, Cluster

T = TypeVar("T")
CHECKED_EVERY = 1.0
"""Seconds between two checks of the model servers while episodes are played."""


class RayEngine(Engine):
    """Engine that calls the player and learner actors of a run.

    Each call of a player contains all current publications of weights. So all players use the same
    weights, and a restarted player repeats its episodes. If possible, one player plays all
    `group_size` episodes of a group. `check` is called every second of play, and raises if a model
    server failed. `close_cluster` ends the servers and the Ray connection.
    """

    def __init__(
        self,
        players: Sequence[Actor],
        learners: Mapping[str, RemoteLearner],
        group_size: int,
        check: Callable[[], None],
        close_cluster: Callable[[], None],
    ) -> None:
        self._actors, self._learners, self._group_size = players, learners, group_size
        self._check, self._close_cluster = check, close_cluster
        self._threads = ThreadPoolExecutor(max(1, len(learners)), "each")
        self._usage: dict[str, Usage] = {}
        self._publications: Publications = {}
        self._published = 0
        self._open: dict[Future[Any], Publications] = {}
        """Share of episodes that is not complete -> its publications."""
        self._changed = threading.Lock()

    def load(self) -> tuple[Mapping[str, ModelText], frozenset[str]]:
        """Wait until all actors have loaded; return name -> ModelText, and the adapters' names."""
        loading = [player.submit("models") for player in self._actors]
        self.each(lambda model: self._learners[model].weights(), self._learners)
        (texts, adapters), *_ = [loaded.result() for loaded in loading]
        return texts, adapters

    def publish(self, name: str, method: str, *arguments: Any) -> None:
        """Register a publication for all later episodes, and return at once.

        Players call `method` ("publish" or "serve") with `name` and `arguments` before they play.
        A later publication of `name` replaces this one. Errors are raised by `play`.
        """
        with self._changed:
            self._published += 1
            self._publications = {**self._publications, name: (self._published, method, arguments)}

    def play(self, games: PlannedGames) -> list[Episode]:
        """Play and return the planned episodes in order, also failed ones; see `play_async`."""
        return background_loop.run(self.play_async(games, None))

    async def play_async(
        self, games: PlannedGames, in_flight: asyncio.Semaphore | None
    ) -> list[Episode]:
        """Play and return the planned episodes in order, also failed ones.

        Each player plays a contiguous share; shares of concurrent calls run one after the other.
        `in_flight` is unused, because players limit concurrency. Raises the first error of a player
        or of `check`; the other players continue.
        """
        shares = [asyncio.wrap_future(share) for share in self._request(games)]
        waiting: Collection[asyncio.Future[Any]] = shares
        while waiting:
            done, waiting = await asyncio.wait(
                waiting, timeout=CHECKED_EVERY, return_when=asyncio.FIRST_EXCEPTION
            )
            for share in done:
                share.result()
            self._check()
        episodes: list[Episode] = []
        for share in shares:
            played, usage = share.result()
            episodes += played
            for name, added in usage.items():
                self._usage.setdefault(name, Usage()).add_usage(added)
        return episodes

    def _request(self, games: PlannedGames) -> list[Future[Any]]:
        shares = shares_of(len(games), len(self._actors), self._group_size)
        with self._changed:
            requested = [
                player.submit("play", games.part(share), self._publications)
                for player, share in zip(self._actors, shares, strict=True)
                if share
            ]
            self._open |= dict.fromkeys(requested, self._publications)
        for share in requested:
            share.add_done_callback(self._end)
        return requested

    def _end(self, share: Future[Any]) -> None:
        with self._changed:
            self._open.pop(share, None)

    async def drained(self, served_as: str) -> None:
        """Wait until episodes requested so far that may sample `served_as` have ended or failed."""
        with self._changed:
            users = [
                asyncio.wrap_future(share)
                for share, used in self._open.items()
                if any(served_as in arguments for _, _, arguments in used.values())
            ]
        # The code that requested the shares receives their errors.
        await asyncio.gather(*users, return_exceptions=True)

    def each(self, function: Callable[[str], T], models: Iterable[str]) -> dict[str, T]:
        """Return model -> function(model), called in concurrent threads.

        Raises the first error in the order of `models`; calls of later models may still run.
        """
        results = {model: self._threads.submit(function, model) for model in models}
        return {model: result.result() for model, result in results.items()}

    def api_usage(self) -> dict[str, Usage]:
        """Return name -> usage of frozen models behind an API, in all completed calls of `play`."""
        return self._usage

    def close(self) -> None:
        """End actors, model servers and waiting calls, and the cluster if the run started it."""
        for player in self._actors:
            player.stop()
        for learner in self._learners.values():
            learner.close()
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._close_cluster()


class RayPublisher(WeightPublisher):
    """Publisher of weights to all players. `put` stores a value and returns a Ray reference."""

    def __init__(self, engine: RayEngine, put: Callable[[Any], Any]) -> None:
        self._engine, self._put = engine, put

    def publish(self, name: str, version: int | str, tensors: Mapping[str, Tensor]) -> None:
        """Publish weights of `name`, as `version`, for later episodes; do not wait for players."""
        self._engine.publish(name, "publish", version, self._put(model_weights(tensors)))


class PlayerSampler:
    """Handle of all players' backends on the servers of `base`; episode records call it `name`."""

    def __init__(self, engine: RayEngine, name: str, base: str, stop_ids: frozenset[int]) -> None:
        self.name, self.base, self.stop_ids = name, base, stop_ids
        self.drained = engine.drained
        self._engine = engine

    def serve(self, adapter: str | None, version: ModelVersion, served_as: str) -> None:
        """Make later episodes of `adapter` (None: base) sample `served_as`, with this version."""
        self._engine.publish(adapter or self.base, "serve", version, served_as)


def shares_of(episodes: int, players: int, group: int) -> list[range]:
    """Split the indices 0 to `episodes` - 1 into one range per player, as equal as possible.

    Ranges consist of whole groups of `group` episodes if `group` divides `episodes` and there are
    at least as many groups as players. A range is empty if there are fewer episodes than players.
    """
    unit = group if episodes % group == 0 and episodes // group >= players else 1
    units = episodes // unit
    cuts = [unit * (units * number // players) for number in range(players + 1)]
    return [range(start, stop) for start, stop in pairwise(cuts)]


def ray_parts(
    config: RunConfig,
    settings: RolloutSettings,
    matchmaking: Matchmaking,
    server_logs: Path | None,
    models: Mapping[str, Any],
) -> Parts:
    """Start players, learners and, if configured, model servers; return them as Parts.

    `server_logs` is the servers' log folder (None: in the cache). Of `settings`, only `make_env` is
    used; `matchmaking` and `models` are unused. An error ends everything that was started.

    Raises:
        ConfigError: If there is no cluster, it has too few CPUs or GPUs, servers of this machine
            are not reachable from other nodes, or `on_device` raises it.
        ServingError, BackendError: If a model server cannot be started or reached.
        Exception: Exceptions of the actors that load models, unchanged.
    """
    engine, make_env = config.engine, settings.make_env
    assert isinstance(engine, RayEngineConfig)
    playing = on_device(config, "rollout_worker_gpus", engine.rollout_worker_gpus)
    learning = on_device(config, "learner_gpus", engine.learner_gpus)
    names, bases, workers = config.models.names, config.models.bases, engine.rollout_workers
    servers = None
    if config.backend.SHARED_SERVERS:
        servers = Plugin(config.backend.SHARED_SERVERS).load()(config, make_env, server_logs)
        bases = servers.starts
    elif TINY in (*bases.values(), *config.models.frozen_models.values()):
        # The embedded model is written once, before all actors of this machine would write it.
        tiny.folder(make_env)
    bound = None if engine.in_flight is None else max(1, engine.in_flight // workers)
    with ExitStack() as until_built:
        ends = until_built.enter_context(ExitStack())
        if servers is not None:
            ends.callback(servers.close)
        cluster = open_cluster(engine, len(names))
        ends.callback(cluster.close)
        if servers is not None and servers.is_local and not cluster.is_one_machine:
            raise ConfigError(
                "backend.managed: these servers accept requests of this machine only, and the "
                "cluster has others: start servers that all nodes reach, and give backend.servers"
            )
        learners = {}
        for place, name in enumerate(names, workers):
            start = learning, name, bases[name], make_env
            actor = cluster.actor(f"the learner of {name}", place, LearnerWorker, *start)
            learners[name] = RemoteLearner(name, actor, cluster.put)
        attach = None
        if servers is not None:
            servers.start({name: learner.apply for name, learner in learners.items()})
            attach = servers.attachment(workers)
        players = [
            cluster.actor(f"player {n}", n, PlayerWorker, playing, make_env, bound, attach)
            for n in range(workers)
        ]
        check = servers.check if servers else lambda: None
        started = RayEngine(players, learners, config.rollout.group_size, check, ends.close)
        texts, adapters = started.load()
        publisher: WeightPublisher = RayPublisher(started, cluster.put)
        if servers is not None:
            publisher = servers.open_publisher(
                {
                    base: PlayerSampler(started, facts["name"], base, facts["stop_ids"])
                    for base, facts in servers.facts.items()
                }
            )
        until_built.pop_all()
    pools = {
        name: OpponentPool(name, section, publisher)
        for name, section in config.opponent_pools.items()
    }
    sampled = Players({}, {}, pools, publisher, adapters, texts, started.close)
    return Parts(started, sampled, cast(Mapping[str, Learner], learners))


def open_cluster(config: RayEngineConfig, models: int) -> Cluster:
    """Return a Cluster for `models` learners; raise ConfigError as Cluster does, or without Ray."""
    # Imported here because Ray is an extra, which the actors' own modules do not require.
    from srl_extensions.cluster.actors import Cluster

    return Cluster(config, models)


def on_device(config: RunConfig, setting: str, gpus: float) -> RunConfig:
    """Return the configuration for actors with `gpus` GPUs each; 0 sets models.device to "cpu".

    Raises ConfigError, which names engine.`setting`, if `gpus` is 0 and models.device is "cuda".
    """
    if gpus:
        return config
    if config.models.device == "cuda":
        raise ConfigError(
            f"models.device: got 'cuda' and engine.{setting} is 0; allowed: a GPU for each actor, "
            "or a part of one, such as 0.5"
        )
    return config.replaced(models=config.models.replaced(device="cpu"))
