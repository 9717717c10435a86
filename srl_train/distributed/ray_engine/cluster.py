"""Ray cluster: connection, places by configuration, and actors in them."""

from __future__ import annotations

import logging
import math
import os
import signal
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Any

from srl_envs.loading import needed_by
from srl_train.config.engine import RayEngineConfig
from srl_train.distributed.processes import Rank
from srl_train.distributed.ray_engine.standing import WorkerLost
from srl_train.errors import ConfigError, TrainingError
from srl_train.interrupts import end

# Read as Ray starts: nothing is reported to its makers, and an actor without GPUs sees the
# machine's own setting of them (it is told its device by us).
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")

with needed_by("engine.name ray", ConfigError):
    import ray
    from ray import cloudpickle
    from ray.exceptions import (
        GetTimeoutError,
        ObjectLostError,
        OutOfMemoryError,
        RayActorError,
        RayTaskError,
    )
    from ray.util.placement_group import (
        placement_group,
        placement_group_table,
        remove_placement_group,
    )
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

log = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
PLACED_WITHIN = 120.0
"""Seconds for the cluster to find room for all actors of a run."""
CONNECTED_WITHIN = 10.0
"""Seconds for the cluster's head to answer."""
SENT_AT_MOST = 3
"""Times that an actor is sent to a place where none comes up."""
MADE_WITHIN = 1800.0
"""Seconds for an actor to start and load its models."""


KNOWN_WITHIN = 60.0
"""Seconds for the cluster to tell of an actor that died, or of its node."""


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

    def call_along(self, method: str, *arguments: Any) -> None:
        """The same for an object whose part in the answer is not needed."""
        self.call(method, *arguments)

    def address(self) -> tuple[str, int]:
        """(this node's address, a port of it that is free now)."""
        with socket.socket() as free:
            free.bind(("", 0))
            return ray.util.get_node_ip_address(), free.getsockname()[1]


class Actor:
    """A worker (see `standing.Worker`) in an actor of the cluster, or in several that do everything
    together; the first answers."""

    def __init__(self, handles: Sequence[Any]) -> None:
        self._handles = handles

    def make(self, kind: Callable[..., Any], *arguments: Any) -> None:
        """Make the object in the actor; raises as `call`, and TrainingError where it takes longer
        than MADE_WITHIN.

        Of several, each makes one, and is told its Rank as the last argument.
        """
        first, *others = self._handles
        if not others:
            self._answer([first.make.remote(kind, *arguments)], MADE_WITHIN)
            return
        host, port = self._answer([first.address.remote()], MADE_WITHIN)
        ranks = [Rank(place, len(self._handles), host, port) for place in range(len(self._handles))]
        self._answer(
            [
                handle.make.remote(kind, *arguments, rank)
                for handle, rank in zip(self._handles, ranks, strict=True)
            ],
            MADE_WITHIN,
        )

    def call(self, method: str, *arguments: Any) -> Any:
        """See Worker."""
        first, *others = self._handles
        answer = first.call.remote(method, *arguments)
        return self._answer(
            [answer, *(other.call_along.remote(method, *arguments) for other in others)]
        )

    def stop(self) -> None:
        """See Worker."""
        if ray.is_initialized():
            for handle in self._handles:
                ray.kill(handle)

    def _answer(self, references: Sequence[Any], timeout: float | None = None) -> Any:
        """The first one's answer, once all have answered."""
        answers: dict[Any, Any] = {}
        raised: Exception | None = None
        waiting = list(references)
        while waiting:
            ready, waiting = ray.wait(waiting, timeout=timeout)
            if not ready:
                break
            try:
                answers[ready[0]] = ray.get(ready[0])
            except (RayActorError, ObjectLostError, OutOfMemoryError) as error:
                self.stop()  # one that could only not be reached must not go on beside its
                # successor, nor do the others have anything to go on with
                raise WorkerLost(str(error).partition("\n")[0]) from error
            except RayTaskError as error:
                # Those whom another's death cuts off may tell before it is known.
                raised, timeout = raised or error, KNOWN_WITHIN
        if raised is not None:
            if waiting:
                self.stop()  # they wait for one that will not come
            raise getattr(raised, "cause", raised) from raised
        if waiting:
            raise _not_up()
        return answers[references[0]]


def _not_up() -> TrainingError:
    return TrainingError(
        f"an actor was not up after {MADE_WITHIN:g} s: is there room on the cluster? (ray status)"
    )


class Cluster:
    """The cluster that a run uses, and a place in it for each of its actors."""

    def __init__(self, config: RayEngineConfig, models: int, servers: int = 0) -> None:
        """Start a cluster on this machine, or attach to one, and reserve what the players, the
        learners of `models` models and so many model servers take.

        Raises ConfigError where there is no cluster at the address, or no room in it.
        """
        self._config = config
        player = {"CPU": config.player_cpus, "GPU": config.player_gpus}
        learner = {"CPU": config.learner_cpus, "GPU": config.learner_gpus}
        server = {"CPU": config.server_cpus, "GPU": config.server_gpus}
        learners = models * config.learner_processes
        bundles = [player] * config.players + [learner] * learners + [server] * servers
        who = f"{config.players} player(s), {learners} learner(s) and {servers} model server(s)"
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
                    f"engine: {who} need {self._bundles} ({config.placement}), the cluster has "
                    f"{_offered()}: ask for less, or add nodes"
                )
            log.info("%s load torch", who)
        except BaseException:
            self._disconnect()
            raise

    def _connect(self) -> None:
        quiet = {"include_dashboard": False, "logging_level": logging.ERROR}
        address = self._config.address
        if address not in (None, "auto"):
            _check_answers(address)
        before = signal.getsignal(signal.SIGTERM)
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
        finally:
            _handle_sigterm(end if before is signal.SIG_DFL else before)
        self._sigterm = before

    def actor(self, places: range, kind: Callable[..., Any], *arguments: Any) -> Actor:
        """An object of `kind` in an actor at one of the places: the players', the models', then the
        servers'; at several, an object in each, see Actor."""
        actor = Actor([self._up(place) for place in places])
        actor.make(kind, *arguments)
        return actor

    def _up(self, place: int) -> Any:
        """An actor at the place that holds nothing yet.

        Where its node is lost, and this is not known yet, one that was sent there comes to nothing;
        the place itself is found elsewhere.
        """
        for left in reversed(range(SENT_AT_MOST)):
            if not (self._open and ray.is_initialized()):  # it would start a cluster by itself
                raise WorkerLost("the cluster was left")
            handle = self._sent(place)
            try:
                ray.get(handle.address.remote(), timeout=MADE_WITHIN)
                break
            except GetTimeoutError as error:
                raise _not_up() from error
            except RayActorError as error:
                if not left:
                    raise WorkerLost(str(error).partition("\n")[0]) from error
        return handle

    def _sent(self, place: int) -> Any:
        bundle = self._bundles[place]
        return (
            ray.remote(Host)
            .options(
                num_cpus=bundle.get("CPU", 0),
                num_gpus=bundle.get("GPU", 0),
                max_restarts=0,  # those that follow have to be given their weights
                scheduling_strategy=PlacementGroupSchedulingStrategy(self._group, place),
            )
            .remote()
        )

    def host(self, place: int) -> str:
        """The address at which all nodes reach what listens on the node of that place: loopback
        where the cluster is this machine alone."""
        addresses = {n["NodeID"]: n["NodeManagerAddress"] for n in ray.nodes() if n["Alive"]}
        if set(addresses.values()) <= {ray.util.get_node_ip_address(), LOOPBACK}:
            return LOOPBACK
        nodes = placement_group_table(self._group)["bundles_to_node_id"]
        return str(addresses[nodes[place]])

    def put(self, value: Any) -> Any:
        """A reference to the value in the object store, which calls are given in its place."""
        return ray.put(value)

    def close(self) -> None:
        """Give the places back; end the cluster, or the connection to it, if it was made here."""
        was_open, self._open = self._open, False  # a later run may have connected anew
        if was_open and ray.is_initialized():
            remove_placement_group(self._group)
            self._disconnect()

    def _disconnect(self) -> None:
        if self._connected:
            ray.shutdown()
            _handle_sigterm(self._sigterm)


def _handle_sigterm(handler: Any) -> None:
    """Take the place of Ray's handler, which ends the cluster under those who still use it."""
    if handler is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)


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
