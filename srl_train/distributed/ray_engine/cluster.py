"""Ray cluster: connection, places by configuration, and actors in them."""

from __future__ import annotations

import logging
import math
import os
import socket
from collections.abc import Callable
from typing import Any

from srl_envs.loading.extras import needed_by
from srl_train.config.engine import RayEngineConfig
from srl_train.distributed.ray_engine.standing import WorkerLost
from srl_train.errors import ConfigError, TrainingError

# Read as Ray starts: nothing is reported to its makers, and an actor without GPUs sees the
# machine's own setting of them (it is told its device by us).
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")

with needed_by("engine.name ray", ConfigError):
    import ray
    from ray import cloudpickle
    from ray.exceptions import GetTimeoutError, OutOfMemoryError, RayActorError, RayTaskError
    from ray.util.placement_group import placement_group, remove_placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

log = logging.getLogger(__name__)

PLACED_WITHIN = 120.0
"""Seconds for the cluster to find room for all actors of a run."""
CONNECTED_WITHIN = 10.0
"""Seconds for the cluster's head to answer."""
MADE_WITHIN = 1800.0
"""Seconds for an actor to start and load its models."""


class Host:
    """What runs in an actor: it makes one object and calls its methods.

    The object is made by a call, for what an actor's own constructor raises does not travel.
    """

    def __init__(self) -> None:
        self._held: Any = None

    def make(self, kind: Callable[..., Any], *arguments: Any) -> None:
        """Make the object whose methods are called from now on."""
        self._held = kind(*arguments)

    def call(self, method: str, *arguments: Any) -> Any:
        """What the object's method gives."""
        return getattr(self._held, method)(*arguments)


class Actor:
    """A worker (see `standing.Worker`) in an actor of the cluster."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def make(self, kind: Callable[..., Any], *arguments: Any) -> None:
        """Make the object in the actor; raises as `call`, and TrainingError where it takes longer
        than MADE_WITHIN."""
        _answer(self._handle.make.remote(kind, *arguments), self.stop, MADE_WITHIN)

    def call(self, method: str, *arguments: Any) -> Any:
        """See Worker."""
        return _answer(self._handle.call.remote(method, *arguments), self.stop)

    def stop(self) -> None:
        """See Worker."""
        if ray.is_initialized():
            ray.kill(self._handle)


def _answer(reference: Any, stop: Callable[[], None], timeout: float | None = None) -> Any:
    try:
        return ray.get(reference, timeout=timeout)
    except RayTaskError as error:
        raise getattr(error, "cause", error) from error
    except GetTimeoutError as error:
        raise TrainingError(
            f"an actor was not up after {timeout:g} s: is there room on the cluster? (ray status)"
        ) from error
    except (RayActorError, OutOfMemoryError) as error:
        stop()  # one that could only not be reached must not go on beside its successor
        raise WorkerLost(str(error).partition("\n")[0]) from error


class Cluster:
    """The cluster that a run uses, and a place in it for each of its actors."""

    def __init__(self, config: RayEngineConfig, models: int) -> None:
        """Start a cluster on this machine, or attach to one, and reserve what the players and the
        learners of `models` models take.

        Raises ConfigError where there is no cluster at the address, or no room in it.
        """
        self._config = config
        player = {"CPU": config.player_cpus, "GPU": config.player_gpus}
        learner = {"CPU": config.learner_cpus, "GPU": config.learner_gpus}
        bundles = [player] * config.players + [learner] * models
        self._bundles = [{k: v for k, v in one.items() if v} for one in bundles]
        self._open = True
        self._connected = not ray.is_initialized()
        if self._connected:
            self._connect()
        try:
            self._group = placement_group(self._bundles, strategy=config.placement)
            if not self._group.wait(PLACED_WITHIN):
                remove_placement_group(self._group)
                raise ConfigError(
                    f"engine: {config.players} player(s) and {models} learner(s) need "
                    f"{self._bundles} ({config.placement}), the cluster has "
                    f"{_offered()}: ask for less, or add nodes"
                )
            log.info("%d player(s) and %d learner(s) load torch", config.players, models)
        except BaseException:
            self._disconnect()
            raise

    def _connect(self) -> None:
        quiet = {"include_dashboard": False, "logging_level": logging.ERROR}
        address = self._config.address
        if address not in (None, "auto"):
            _check_answers(address)
        try:
            if address is None:
                log.info("starting a Ray cluster on this machine")
                # More than there are where the actors need more: they share the machine's.
                needed = math.ceil(sum(one.get("CPU", 0.0) for one in self._bundles))
                ray.init("local", num_cpus=max(needed, os.cpu_count() or 1), **quiet)
            else:
                ray.init(address, **quiet)
        except (ConnectionError, ValueError, RuntimeError) as error:
            told = " ".join(str(error).split())[:300]
            raise ConfigError(
                f"engine.address: got {address!r} ({told}): `ray start --head` starts a cluster "
                "here; without an address the run starts its own"
            ) from error

    def actor(self, place: int, kind: Callable[..., Any], *arguments: Any) -> Actor:
        """An object of `kind` in an actor at one of the places: the players', then the models'."""
        if not ray.is_initialized():  # it would start another cluster by itself
            raise WorkerLost("the cluster was left")
        bundle = self._bundles[place]
        handle = (
            ray.remote(Host)
            .options(
                num_cpus=bundle.get("CPU", 0),
                num_gpus=bundle.get("GPU", 0),
                max_restarts=0,  # those that follow have to be given their weights
                scheduling_strategy=PlacementGroupSchedulingStrategy(self._group, place),
            )
            .remote()
        )
        actor = Actor(handle)
        actor.make(kind, *arguments)
        return actor

    def put(self, value: Any) -> Any:
        """A reference to the value in the object store, which calls are given in its place."""
        return ray.put(value)

    def close(self) -> None:
        """Give the places back; end the cluster, or the connection to it, if it was made here."""
        if self._open and ray.is_initialized():
            remove_placement_group(self._group)
            self._disconnect()
        self._open = False  # a later run may have connected anew

    def _disconnect(self) -> None:
        if self._connected:
            ray.shutdown()


def _check_answers(address: str) -> None:
    """Raise ConfigError where nobody listens: Ray would go on asking for minutes."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), CONNECTED_WITHIN).close()
    except (OSError, ValueError, OverflowError) as error:
        raise ConfigError(
            f"engine.address: got {address!r} ({error}): give HOST:PORT as `ray start --head` told "
            "it, or auto, on a machine that is a node of the cluster"
        ) from error


def check_picklable(what: str, value: Any) -> None:
    """Raise ConfigError for what cannot be handed to an actor."""
    try:
        cloudpickle.dumps(value)
    except Exception as error:
        raise ConfigError(
            f"engine.name ray: {what} cannot be sent to the actors "
            f"({type(error).__name__}: {error}): give a function of a module, or a class"
        ) from error


def _offered() -> dict[str, float]:
    whole: dict[str, float] = ray.cluster_resources()
    return {name: whole.get(name, 0.0) for name in ("CPU", "GPU")}
