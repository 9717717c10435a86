"""Ray engine: rounds shared out over player and learner actors."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from itertools import count, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from srl_agents.episode import Episode
from srl_agents.llm import tiny
from srl_agents.llm.backends.chat_backend import Usage
from srl_agents.matchmaking import Matchmaking
from srl_extensions.vllm.config import VLLMBackendConfig
from srl_train.build import Parts, check_shares
from srl_train.config.engine import RayEngineConfig
from srl_train.config.learning.offline import OfflineConfig
from srl_train.config.run import RunConfig
from srl_train.distributed.processes import Rank
from srl_train.distributed.ray_engine.player import PlayerWorker
from srl_train.distributed.ray_engine.remote_learner import RemoteLearner, RemoteModel
from srl_train.distributed.ray_engine.remote_player import RayPublisher, RemotePlayer
from srl_train.distributed.ray_engine.standing import Places
from srl_train.engines import Engine, RolloutSettings
from srl_train.errors import ConfigError
from srl_train.learners.learner import StageLearner
from srl_train.opponent_pool import OpponentPool
from srl_train.plan import PlannedGames
from srl_train.player_names import TINY, notes_of
from srl_train.publisher import WeightPublisher
from srl_train.run import Players

if TYPE_CHECKING:
    from srl_train.distributed.ray_engine.served import Serving

T = TypeVar("T")
CHECKED_EVERY = 1.0
"""Seconds between two looks at what ends all play."""


class RayEngine(Engine):
    """The heavy work of a run, by calls to its players and learners."""

    def __init__(
        self,
        players: Sequence[RemotePlayer],
        learners: Mapping[str, RemoteLearner],
        close: Callable[[], None],
        check: Callable[[], None],
        group_size: int,
    ) -> None:
        """`close` ends what the workers run on; `check` raises what ends all play, and is called
        now and then while games are played."""
        self.players = players
        self.learners = learners
        self.spectator = lambda: None
        self._close, self._check, self._group_size = close, check, group_size
        self._threads = ThreadPoolExecutor(max(1, len(learners)), thread_name_prefix="each")

    def play(self, games: PlannedGames) -> list[Episode]:
        """See Engine; each player plays a contiguous share, and none branches (RunConfig refuses
        it)."""
        asked = self._asked(games)
        waiting: Collection[Future[list[Episode]]] = asked
        while waiting:
            done, waiting = concurrent.futures.wait(waiting, CHECKED_EVERY, FIRST_EXCEPTION)
            self._check_play(done)
        return [episode for played in asked for episode in played.result()]

    async def play_async(
        self, games: PlannedGames, in_flight: asyncio.Semaphore | None
    ) -> list[Episode]:
        """See Engine; a player plays its share of one round after that of another, and bounds the
        games under way by itself, so that there is nothing to do for `in_flight`."""
        asked = self._asked(games)
        waiting: Collection[asyncio.Future[list[Episode]]] = [*map(asyncio.wrap_future, asked)]
        while waiting:
            done, waiting = await asyncio.wait(
                waiting, timeout=CHECKED_EVERY, return_when=FIRST_EXCEPTION
            )
            self._check_play(done)
        return [episode for share in asked for episode in share.result()]

    def _asked(self, games: PlannedGames) -> list[Future[list[Episode]]]:
        """The games' parts, in order, as the players are asked for them."""
        shares = shares_of(len(games), len(self.players), self._group_size)
        return [
            player.play(games.part(own))
            for player, own in zip(self.players, shares, strict=True)
            if own
        ]

    def _check_play(self, done: Iterable[Any]) -> None:
        """Raise what a player's games raised, and what ends all play."""
        for share in done:
            share.result()
        self._check()

    def each(self, function: Callable[[str], T], models: Iterable[str]) -> dict[str, T]:
        """See Engine; of all models at once."""
        asked = {model: self._threads.submit(function, model) for model in models}
        return {model: answer.result() for model, answer in asked.items()}

    def stage_learner(
        self, model: str, section: OfflineConfig, planned_steps: int, seed: int
    ) -> StageLearner:
        """See Engine."""
        return self.learners[model].in_stage(section, planned_steps)

    def api_usage(self) -> dict[str, Usage]:
        """See Engine; of all players together."""
        found: dict[str, Usage] = {}
        for player in self.players:
            for asked in player.usages:
                for name, usage in asked.items():
                    found.setdefault(name, Usage()).add_usage(usage)
        return found

    def close(self) -> None:
        """End all workers and what they run on."""
        for player in self.players:
            player.close()
        for learner in self.learners.values():
            learner.close()
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._close()


def shares_of(episodes: int, players: int, group: int) -> list[range]:
    """Contiguous parts of a rollout by their games' numbers, one for each player, as equal as whole
    groups allow; by single episodes where there are fewer groups than players, or no whole ones."""
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
    """Start players, learners and model servers in the actors of a Ray cluster (build.ENGINES)."""
    assert isinstance(config.engine, RayEngineConfig)
    check_shares(config, config.engine.learner_processes)
    engine, players = start_engine(config, config.engine, settings.make_env, server_logs)
    return Parts(engine, players, engine.learners)


def start_engine(
    config: RunConfig,
    engine: RayEngineConfig,
    make_env: Callable[[], Any],
    server_logs: Path | None,
) -> tuple[RayEngine, Players]:
    """(players and learners of the run, all of them up; what the run knows of who plays).

    `server_logs` is where model servers write, on the nodes that have the folder that it is in.
    Raises ConfigError where Ray is not installed, for what cannot be sent to actors, and where
    there is no cluster or no room in it, and what loading the models raises.
    """
    from srl_train.distributed.ray_engine.cluster import Cluster, check_picklable  # an extra

    check_picklable("the environment's function", make_env)
    models = config.models
    if TINY in (*models.bases.values(), *models.frozen_models.values()):
        # It is made once, before all actors of this machine would make it.
        size = tiny.SERVABLE if servers_of(config) else tiny.TinySize()
        tiny.folder(make_env, size=size, notes=notes_of(models.opponent_notes, make_env))
    cluster = Cluster(engine, models.count, servers_of(config))
    return engine_on(cluster, config, engine, make_env, server_logs)


def servers_of(config: RunConfig) -> int:
    """Model servers that a run places: for each base that is served, its replicas."""
    if not isinstance(config.backend, VLLMBackendConfig) or config.backend.managed is None:
        return 0
    bases = 1 if config.models.adapters else config.models.count
    return bases * config.backend.managed.replicas


def engine_on(
    cluster: Places,
    config: RunConfig,
    engine: RayEngineConfig,
    make_env: Callable[[], Any],
    server_logs: Path | None = None,
) -> tuple[RayEngine, Players]:
    """`start_engine` on a cluster that is there."""
    playing = on_device(config, "player_gpus", engine.player_gpus)
    learning = on_device(config, "learner_gpus", engine.learner_gpus)
    bound = None if engine.in_flight is None else max(1, engine.in_flight // engine.players)
    each = engine.learner_processes
    learners = {
        name: RemoteLearner(
            name,
            RemoteModel(
                name,
                partial(
                    cluster.actor,
                    range(place, place + each),
                    make_learner,
                    learning,
                    name,
                    make_env,
                ),
                cluster.put,
            ),
        )
        for place, name in zip(count(engine.players, each), config.models.names, strict=False)
    }
    with ExitStack() as ends:
        ends.callback(cluster.close)
        serving, asked = None, None
        if isinstance(config.backend, VLLMBackendConfig):
            # Only here: it takes the client of servers, which is an extra.
            from srl_train.distributed.ray_engine.served import Serving

            with ThreadPoolExecutor(len(learners)) as at_once:
                loading = [at_once.submit(one.parallelism) for one in learners.values()]
                serving = Serving(config, engine, config.backend, cluster, make_env, server_logs)
                ends.callback(serving.close)
            for loaded in loading:
                loaded.result()
            asked = serving.asked(learners)
        players = [
            RemotePlayer(
                f"player {place}",
                partial(
                    cluster.actor,
                    range(place, place + 1),
                    PlayerWorker,
                    playing,
                    make_env,
                    bound,
                    asked,
                ),
            )
            for place in range(engine.players)
        ]
        check = serving.fleet.check if serving else lambda: None
        group_size = config.rollout.group_size
        started = RayEngine(players, learners, ends.pop_all().close, check, group_size)
    try:
        return started, _players_of(config, started, cluster.put, serving)
    except BaseException:
        started.close()
        raise


def _players_of(
    config: RunConfig, engine: RayEngine, put: Callable[[Any], Any], serving: Serving | None
) -> Players:
    """What a run knows of who plays, from the players themselves, once all workers are up."""
    introduced = [player.introduction() for player in engine.players]
    engine.each(lambda model: engine.learners[model].parallelism(), engine.learners)
    known, *_ = [one.result() for one in introduced]
    publisher: WeightPublisher
    if serving is not None:
        publisher = serving.publisher(engine.players, engine.learners)
    else:
        publisher = RayPublisher(engine.players, put)
    return Players(
        backends={},
        modules={},
        pools={n: OpponentPool(n, own, publisher) for n, own in config.opponent_pools.items()},
        publisher=publisher,
        adapters=known.adapters,
        texts=known.texts,
        close=engine.close,
    )


def on_device(config: RunConfig, setting: str, gpus: float) -> RunConfig:
    """The configuration of workers that have so many GPUs each: without any they compute on CPUs.

    Raises ConfigError where the configuration wants them on GPUs.
    """
    if gpus:
        return config
    if config.models.device == "cuda":
        raise ConfigError(
            f"models.device: got 'cuda' where engine.{setting} is 0: give each a GPU, or a part of "
            "one, such as 0.5"
        )
    return config.replaced(models=config.models.replaced(device="cpu"))


def make_learner(
    config: RunConfig, model: str, make_env: Callable[[], Any], rank: Rank | None = None
) -> Any:
    """A LearnerWorker, which with a rank is one of several that share a model's work."""
    if rank is not None:
        rank.announce()
    from srl_train.distributed.ray_engine.learner import LearnerWorker  # where it runs: takes TRL

    return LearnerWorker(config, model, make_env)
