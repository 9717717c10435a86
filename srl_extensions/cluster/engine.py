"""Ray engine: a run's episodes and updates in player and learner actors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from srl_agents.episode import Episode
from srl_agents.llm import tiny
from srl_agents.llm.backends import background_loop
from srl_agents.llm.backends.chat_backend import Usage
from srl_agents.matchmaking import Matchmaking
from srl_envs.tables import Plugin
from srl_extensions.cluster.learners import LearnerWorker, RemoteLearner
from srl_extensions.cluster.players import (
    PlayerPool,
    PlayerSampler,
    PlayerWorker,
    RayPublisher,
)
from srl_train.build import Parts, check_shares
from srl_train.config.engine import RayEngineConfig
from srl_train.config.run import RunConfig
from srl_train.config.stages import StageConfig
from srl_train.engines import Engine, Players, RolloutSettings
from srl_train.errors import ConfigError
from srl_train.learners.learner import Learner, StageLearner
from srl_train.opponent_pool import OpponentPool
from srl_train.plan import PlannedGames
from srl_train.player_names import TINY
from srl_train.publisher import WeightPublisher

if TYPE_CHECKING:
    from srl_extensions.cluster.actors import Cluster

T = TypeVar("T")
CHECKED_EVERY = 1.0
"""Seconds between two checks of the model servers while episodes are played."""


class RayEngine(Engine):
    """Engine that calls the player and learner actors of a run.

    `close` ends the servers and the cluster; `check` raises an error of the servers after which no
    episode can be played.
    """

    def __init__(
        self,
        pool: PlayerPool,
        learners: Mapping[str, RemoteLearner],
        close: Callable[[], None],
        check: Callable[[], None],
    ) -> None:
        self.spectator = lambda: None
        self._pool, self._learners = pool, learners
        self._close, self._check = close, check
        self._threads = ThreadPoolExecutor(max(1, len(learners)), thread_name_prefix="each")

    def play(self, games: PlannedGames) -> list[Episode]:
        """Play the planned episodes; each player plays a contiguous share."""
        return background_loop.run(self.play_async(games, None))

    async def play_async(
        self, games: PlannedGames, in_flight: asyncio.Semaphore | None
    ) -> list[Episode]:
        """Play the planned episodes; players bound concurrent episodes, so `in_flight` is unused.

        A player plays its shares of several rounds one after the other.
        """
        shares = [asyncio.wrap_future(share) for share in self._pool.play(games)]
        waiting: Collection[asyncio.Future[list[Episode]]] = shares
        while waiting:
            done, waiting = await asyncio.wait(
                waiting, timeout=CHECKED_EVERY, return_when=asyncio.FIRST_EXCEPTION
            )
            for share in done:
                share.result()
            self._check()
        return [episode for share in shares for episode in share.result()]

    def each(self, function: Callable[[str], T], models: Iterable[str]) -> dict[str, T]:
        """Call the function for all models at once, and return model to result."""
        results = {model: self._threads.submit(function, model) for model in models}
        return {model: result.result() for model, result in results.items()}

    def stage_learner(
        self, model: str, section: StageConfig, planned_steps: int, seed: int
    ) -> StageLearner:
        """Return the learner of a model for an offline stage, in the model's actor."""
        return cast(StageLearner, self._learners[model].in_stage(section, planned_steps))

    def api_usage(self) -> dict[str, Usage]:
        """Return the usage of each frozen model behind an API, of all players together."""
        return self._pool.usage

    def close(self) -> None:
        """End all actors, the servers and the cluster."""
        self._pool.close()
        for learner in self._learners.values():
            learner.close()
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._close()


def ray_parts(
    config: RunConfig,
    settings: RolloutSettings,
    matchmaking: Matchmaking,
    server_logs: Path | None,
    models: Mapping[str, Any],
) -> Parts:
    """Start players, learners and model servers in the actors of a Ray cluster (build.ENGINES).

    Raises:
        ConfigError: If there is no cluster or no room in it.
        Exception: Exceptions of the actors that load models, unchanged.
    """
    engine, make_env = config.engine, settings.make_env
    assert isinstance(engine, RayEngineConfig)
    check_shares(config, engine.learner_processes)
    playing = on_device(config, "rollout_worker_gpus", engine.rollout_worker_gpus)
    learning = on_device(config, "learner_gpus", engine.learner_gpus)
    names, processes = config.models.names, engine.learner_processes
    servers = None
    if config.backend.PLACED_SERVERS:
        servers = Plugin(config.backend.PLACED_SERVERS).load()(
            config, make_env, server_logs, gpus=engine.server_gpus
        )
    elif TINY in (*config.models.bases.values(), *config.models.frozen_models.values()):
        # The embedded model is written once, before all actors of this machine would write it.
        tiny.folder(make_env)
    bound = None if engine.in_flight is None else max(1, engine.in_flight // engine.rollout_workers)
    with ExitStack() as ends:
        cluster = open_cluster(engine, len(names), servers.count if servers else 0)
        ends.callback(cluster.close)
        first = engine.rollout_workers
        learners = {}
        for name in names:
            places = range(first, first := first + processes)
            actor = cluster.actor(
                f"the learner of {name}", places, LearnerWorker, learning, name, make_env
            )
            learners[name] = RemoteLearner(name, actor, cluster.put)
        threads = ends.enter_context(ThreadPoolExecutor(len(names)))
        loading = [threads.submit(one.parallelism) for one in learners.values()]
        access = None
        if servers is not None:
            places = range(first, first + servers.count)
            workers = [
                cluster.actor(f"model server {n}", range(n, n + 1), *servers.worker(n - first))
                for n in places
            ]
            for worker in workers:
                ends.callback(worker.stop)
            ends.callback(servers.close)
            servers.start([worker.call for worker in workers], [cluster.host(n) for n in places])
            for loaded in loading:
                loaded.result()
            applies = {name: learner.apply for name, learner in learners.items()}
            access = servers.access(applies, engine.rollout_workers)
        players = [
            cluster.actor(
                f"player {n}", range(n, n + 1), PlayerWorker, playing, make_env, bound, access
            )
            for n in range(engine.rollout_workers)
        ]
        pool = PlayerPool(players, config.rollout.group_size)
        for loaded in loading:
            loaded.result()
        (texts, adapters), *_ = [loaded.result() for loaded in pool.models()]
        publisher: WeightPublisher
        if servers is not None:
            publisher = servers.publisher(lambda *base: PlayerSampler(pool, *base))
        else:
            publisher = RayPublisher(pool, cluster.put)
        check = servers.check if servers else lambda: None
        started = RayEngine(pool, learners, ends.pop_all().close, check)
    pools = {
        name: OpponentPool(name, section, publisher)
        for name, section in config.opponent_pools.items()
    }
    sampled = Players({}, {}, pools, publisher, adapters, texts, started.close)
    return Parts(started, sampled, cast(Mapping[str, Learner], learners))


def open_cluster(config: RayEngineConfig, models: int, servers: int) -> Cluster:
    """Open a cluster for a run."""
    # Imported here because Ray is an extra, which the actors' own modules do not require.
    from srl_extensions.cluster.actors import Cluster

    return Cluster(config, models, servers)


def on_device(config: RunConfig, setting: str, gpus: float) -> RunConfig:
    """Return the configuration of actors with `gpus` GPUs each, which use CPUs if there are none.

    Raises ConfigError if models.device is cuda and the actors have no GPU.
    """
    if gpus:
        return config
    if config.models.device == "cuda":
        raise ConfigError(
            f"models.device: got 'cuda' and engine.{setting} is 0; allowed: a GPU for each actor, "
            "or a part of one, such as 0.5"
        )
    return config.replaced(models=config.models.replaced(device="cpu"))
