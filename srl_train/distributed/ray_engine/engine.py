"""Ray engine: rounds shared out over player and learner actors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import count, pairwise
from typing import Any, Protocol, TypeVar

from srl_agents.episode import Episode
from srl_agents.llm import tiny
from srl_agents.llm.backends.chat_backend import Usage
from srl_train.config.engine import RayEngineConfig
from srl_train.config.learning.offline import OfflineConfig
from srl_train.config.run import RunConfig
from srl_train.distributed.processes import Rank
from srl_train.distributed.ray_engine.player import PlayerWorker
from srl_train.distributed.ray_engine.publisher import RayPublisher
from srl_train.distributed.ray_engine.remote_learner import RemoteLearner, RemoteModel
from srl_train.distributed.ray_engine.remote_player import RemotePlayer
from srl_train.distributed.ray_engine.standing import Worker
from srl_train.engine.builders.players import Players
from srl_train.engine.engine import Engine
from srl_train.engine.state import Run
from srl_train.errors import ConfigError
from srl_train.learners.learner import StageLearner
from srl_train.players.opponent_pool import OpponentPool
from srl_train.players.player_spec import TINY
from srl_train.players.trained_models import configured_notes

T = TypeVar("T")


class Places(Protocol):
    """Where the workers of a run are made: players first, then a learner for each model."""

    def actor(self, places: range, kind: Callable[..., Any], *arguments: Any) -> Worker:
        """A worker that holds what `kind` gives for the arguments; of several places, processes
        that hold one each, for which `kind` is given their Rank besides."""
        ...

    def put(self, value: Any) -> Any:
        """Something that may be given to calls in the value's place, once or more often."""
        ...

    def close(self) -> None:
        """End all of it."""
        ...


class RayEngine(Engine):
    """The heavy work of a run, by calls to its players and learners."""

    def __init__(
        self,
        players: Sequence[RemotePlayer],
        learners: Mapping[str, RemoteLearner],
        close: Callable[[], None],
    ) -> None:
        """`close` ends what the workers run on."""
        self.players = players
        self.learners = learners
        self._close = close
        self._threads = ThreadPoolExecutor(max(1, len(learners)), thread_name_prefix="each")

    def rollout(
        self,
        run: Run,
        env_seeds: Sequence[int],
        policy_seeds: Sequence[int],
        options: Sequence[Mapping[str, Any]],
        *,
        extra: Mapping[str, Any] | None = None,
        record_states: bool = False,
        in_words: bool = False,
    ) -> list[Episode]:
        """See Engine; each player plays a contiguous share."""
        asked = self._asked(run, env_seeds, policy_seeds, options, extra, record_states, in_words)
        return [episode for played in asked for episode in played.result()]

    async def rollout_async(
        self,
        run: Run,
        env_seeds: Sequence[int],
        policy_seeds: Sequence[int],
        options: Sequence[Mapping[str, Any]],
        *,
        extra: Mapping[str, Any] | None = None,
        record_states: bool = False,
        in_flight: asyncio.Semaphore | None = None,
    ) -> list[Episode]:
        """See Engine; a player plays its share of one round after that of another, and bounds the
        games under way by itself, so that there is nothing to do for `in_flight`."""
        asked = self._asked(run, env_seeds, policy_seeds, options, extra, record_states)
        played = await asyncio.gather(*map(asyncio.wrap_future, asked))
        return [episode for share in played for episode in share]

    def _asked(
        self,
        run: Run,
        env_seeds: Sequence[int],
        policy_seeds: Sequence[int],
        options: Sequence[Mapping[str, Any]],
        extra: Mapping[str, Any] | None,
        record_states: bool,
        in_words: bool = False,
    ) -> list[Future[list[Episode]]]:
        """The games' parts, in order, as the players are asked for them."""
        group = run.config.rollout.group_size
        shares = shares_of(len(env_seeds), len(self.players), group)
        return [
            player.play(
                env_seeds[own], policy_seeds[own], options[own], extra, record_states, in_words
            )
            for player, own in zip(self.players, shares, strict=True)
            if own.start < own.stop
        ]

    def each(self, function: Callable[[str], T], models: Iterable[str]) -> dict[str, T]:
        """See Engine; of all models at once."""
        asked = {model: self._threads.submit(function, model) for model in models}
        return {model: answer.result() for model, answer in asked.items()}

    def stage_learner(
        self, run: Run, model: str, section: OfflineConfig, planned_steps: int
    ) -> StageLearner:
        """See Engine."""
        return self.learners[model].in_stage(section, planned_steps)

    def api_usage(self, run: Run) -> dict[str, Usage]:
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


def shares_of(episodes: int, players: int, group: int) -> list[slice]:
    """Contiguous parts of a rollout, one for each player, as equal as whole groups allow; by single
    episodes where there are fewer groups than players, or no whole groups."""
    unit = group if episodes % group == 0 and episodes // group >= players else 1
    units = episodes // unit
    cuts = [unit * (units * number // players) for number in range(players + 1)]
    return [slice(start, stop) for start, stop in pairwise(cuts)]


def start_engine(
    config: RunConfig, engine: RayEngineConfig, make_env: Callable[[], Any]
) -> tuple[RayEngine, Players]:
    """(players and learners of the run, all of them up; what the run knows of who plays).

    Raises ConfigError where Ray is not installed, for what cannot be sent to actors, and where
    there is no cluster or no room in it, and what loading the models raises.
    """
    from srl_train.distributed.ray_engine.cluster import Cluster, check_picklable  # an extra

    check_picklable("the environment's function", make_env)
    models = config.models
    if TINY in (*models.bases, *models.frozen_models.values()):
        # It is made once, before all actors of this machine would make it.
        tiny.folder(make_env, notes=configured_notes(models, make_env))
    return engine_on(Cluster(engine, models.count), config, engine, make_env)


def engine_on(
    cluster: Places, config: RunConfig, engine: RayEngineConfig, make_env: Callable[[], Any]
) -> tuple[RayEngine, Players]:
    """`start_engine` on a cluster that is there."""
    playing = on_device(config, "player_gpus", engine.player_gpus)
    learning = on_device(config, "learner_gpus", engine.learner_gpus)
    bound = None if engine.in_flight is None else max(1, engine.in_flight // engine.players)
    each = engine.learner_processes
    players = [
        RemotePlayer(
            f"player {place}",
            partial(cluster.actor, range(place, place + 1), PlayerWorker, playing, make_env, bound),
        )
        for place in range(engine.players)
    ]
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
    started = RayEngine(players, learners, cluster.close)
    try:
        return started, _players_of(config, started, cluster.put)
    except BaseException:
        started.close()
        raise


def _players_of(config: RunConfig, engine: RayEngine, put: Callable[[Any], Any]) -> Players:
    """What a run knows of who plays, from the players themselves, once all workers are up."""
    introduced = [player.introduction() for player in engine.players]
    engine.each(lambda model: engine.learners[model].parallelism(), engine.learners)
    known, *_ = [one.result() for one in introduced]
    publisher = RayPublisher(engine.players, known.identities, put)
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
