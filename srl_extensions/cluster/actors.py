"""Ray cluster: connection, reserved places, and actors that Ray restarts."""

from __future__ import annotations

import logging
import math
import os
import secrets
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from srl_envs.loading import needed_by
from srl_train.config.engine import RayEngineConfig
from srl_train.errors import ConfigError, TrainingError
from srl_train.interrupts import end

# Ray reads these variables when it starts: send no usage statistics, and let an actor without GPUs
# see the machine's own setting, because the configuration selects its device.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")

with needed_by("engine.name ray", ConfigError):
    import ray
    from ray.exceptions import (
        ActorDiedError,
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
"""Seconds for the cluster to reserve the places of a run."""
CONNECTED_WITHIN = 10.0
"""Seconds for the cluster's head to accept a connection."""
MOST_DEATHS = 3
"""Deaths of an actor in one call after which the run ends."""
KNOWN_WITHIN = 60.0
"""Seconds after an error of one process of a group in which the death of another is reported."""


class Host:
    """Ray actor with one object, which is built by the first call.

    The caller receives an exception of a call unchanged; one of an actor's constructor is lost.
    """

    def __init__(self, kind: Callable[..., Any], arguments: Sequence[Any]) -> None:
        self._kind, self._arguments = kind, arguments
        self._object: Any = None
        self._identity = secrets.token_hex(8)

    def call(self, rank: Mapping[str, str], method: str, *arguments: Any) -> Any:
        """Return the result of a method of the object.

        `rank` are the variables that torchrun would set for this process of a group; empty without
        a group. Only the first process of a group returns the result.
        """
        if self._object is None:
            os.environ |= rank
            self._object = self._kind(*self._arguments)
        result = getattr(self._object, method)(*arguments)
        return result if rank.get("RANK", "0") == "0" else None

    @ray.method(max_task_retries=-1)  # type: ignore[untyped-decorator]  # Ray has no types here.
    def address(self) -> tuple[str, int, str]:
        """Return this node's address, a free port, and the identity of this process."""
        with socket.socket() as free:
            free.bind(("", 0))
            return ray.util.get_node_ip_address(), free.getsockname()[1], self._identity


class Actor:
    """Object in a Ray actor, or in several actors that form a process group.

    Ray restarts an actor that died; if a process of a group dies, all are replaced. The call is
    repeated then. A restarted object is built anew, so calls carry everything that they depend on.
    `name` is used in messages; `spawn` starts the actors and returns their handles.
    """

    def __init__(self, name: str, spawn: Callable[[], Sequence[Any]]) -> None:
        self.name, self._spawn, self._handles = name, spawn, spawn()
        self._ranks: Sequence[Mapping[str, str]] = ()
        self._identity = ""
        self._lock = threading.Lock()
        self._stopped = False

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of the object, one call at a time.

        Raises:
            TrainingError: If the actor died MOST_DEATHS times in this call, or was stopped.
            Exception: Exceptions of the method, unchanged.
        """
        deaths, lost = 0, None
        with self._lock:
            while True:
                try:
                    deaths += lost is not None and self._recover()
                    if deaths == MOST_DEATHS:
                        break
                    return self._answer(
                        [
                            handle.call.remote(rank, method, *arguments)
                            for handle, rank in zip(self._handles, self._group(), strict=True)
                        ]
                    )
                except (RayActorError, ObjectLostError, OutOfMemoryError) as error:
                    final = len(self._handles) == 1 and isinstance(error, ActorDiedError)
                    if self._stopped or final:
                        raise TrainingError(f"{self.name} ended with the run") from error
                    log.warning("%s died: %s", self.name, error)
                    lost = error
        raise TrainingError(
            f"{self.name} died {MOST_DEATHS} times in {method}: check the memory of its node, and "
            "Ray's logs there (/tmp/ray)"
        ) from lost

    def stop(self) -> None:
        """End all processes of the actor; current and later calls raise TrainingError."""
        self._stopped = True
        if ray.is_initialized():
            for handle in self._handles:
                ray.kill(handle)

    def _group(self) -> Sequence[Mapping[str, str]]:
        """Return the torchrun environment variables of each process; empty for a single process."""
        if not self._ranks:
            host, port, self._identity = ray.get(self._handles[0].address.remote())
            shared = {
                "LOCAL_RANK": "0",  # Each process has its own accelerator.
                "WORLD_SIZE": str(len(self._handles)),
                "MASTER_ADDR": host,
                "MASTER_PORT": str(port),
            }
            ranks = [{"RANK": str(index), **shared} for index in range(len(self._handles))]
            self._ranks = ranks if len(ranks) > 1 else [{}]
        return self._ranks

    def _recover(self) -> bool:
        """Replace a group's processes, or wait for a single one; return False if it did not die.

        A process is unreachable for some seconds when its node was lost, before Ray restarts it.
        """
        if len(self._handles) > 1:
            self._replace()
            return True
        *_, identity = ray.get(self._handles[0].address.remote())
        before, self._identity = self._identity, identity
        if identity == before:
            time.sleep(1.0)
        return bool(identity != before)

    def _replace(self) -> None:
        """Replace all processes of a group: the survivors' connections are broken."""
        for handle in self._handles:
            ray.kill(handle)
        self._handles, self._ranks = self._spawn(), ()

    def _answer(self, references: Sequence[Any]) -> Any:
        """Wait for all processes and return the first one's result; raise the first exception."""
        answers: dict[Any, Any] = {}
        raised: Exception | None = None
        waiting, timeout = list(references), None
        while waiting:
            ready, waiting = ray.wait(waiting, timeout=timeout)
            if not ready:
                break
            try:
                answers[ready[0]] = ray.get(ready[0])
            except RayTaskError as error:
                # A process that was cut off by another's death may report first.
                raised, timeout = raised or error, KNOWN_WITHIN
        if raised is not None:
            if waiting:
                self._replace()  # The others wait for the process that failed.
            raise getattr(raised, "cause", raised) from raised
        return answers[references[0]]


class Cluster:
    """Connection to a Ray cluster, with reserved resources (a "place") for each actor of a run.

    `models` is the number of models in training and `servers` of model servers. Raises ConfigError
    if there is no cluster at the address, or not enough room in it.
    """

    def __init__(self, config: RayEngineConfig, models: int, servers: int = 0) -> None:
        player = {"CPU": config.actor_cpus, "GPU": config.rollout_worker_gpus}
        learner = {"CPU": config.actor_cpus, "GPU": config.learner_gpus}
        server = {"CPU": config.actor_cpus, "GPU": config.server_gpus}
        learners = models * config.learner_processes
        bundles = [player] * config.rollout_workers + [learner] * learners + [server] * servers
        actors = f"{config.rollout_workers} workers, {learners} learners, {servers} model servers"
        self._bundles = [{k: v for k, v in one.items() if v} for one in bundles]
        self._open = True
        self._connected = not ray.is_initialized()
        if self._connected:
            self._connect(config.address)
        try:
            self._group = placement_group(self._bundles, strategy=config.placement)
            if not self._group.wait(PLACED_WITHIN):
                remove_placement_group(self._group)
                offered = {n: ray.cluster_resources().get(n, 0.0) for n in ("CPU", "GPU")}
                raise ConfigError(
                    f"engine: {actors} require {self._bundles} ({config.placement}), the cluster "
                    f"has {offered}: request less, or add nodes"
                )
            log.info("%s load torch", actors)
        except BaseException:
            self._disconnect()
            raise

    def _connect(self, address: str | None) -> None:
        quiet = {"include_dashboard": False, "logging_level": logging.ERROR}
        if address not in (None, "auto"):
            _check_reachable(address)
        before = signal.getsignal(signal.SIGTERM)
        try:
            if address is None:
                log.info("starting a Ray cluster on this machine")
                # If actors require more CPUs than the machine has, they share its CPUs.
                required = math.ceil(sum(one.get("CPU", 0.0) for one in self._bundles))
                ray.init("local", num_cpus=max(required, os.cpu_count() or 1), **quiet)
            else:
                ray.init(address, **quiet)
        except (ConnectionError, ValueError, RuntimeError) as error:
            reason = " ".join(str(error).split())[:300]
            raise ConfigError(
                f"engine.address: got {address!r} ({reason}): `ray start --head` starts a cluster "
                "here; without an address the run starts its own"
            ) from error
        finally:
            _handle_sigterm(end if before is signal.SIG_DFL else before)
        self._sigterm = before

    def actor(self, name: str, places: range, kind: Callable[..., Any], *arguments: Any) -> Actor:
        """Start an actor with an object `kind(*arguments)`, or a group with one actor per place.

        Places are numbered: players, learners, then model servers.
        """
        host = ray.remote(Host)

        def spawn() -> list[Any]:
            return [
                host.options(
                    num_cpus=self._bundles[place].get("CPU", 0),
                    num_gpus=self._bundles[place].get("GPU", 0),
                    max_restarts=-1 if len(places) == 1 else 0,
                    scheduling_strategy=PlacementGroupSchedulingStrategy(self._group, place),
                ).remote(kind, arguments)
                for place in places
            ]

        return Actor(name, spawn)

    def host(self, place: int) -> str:
        """Return the address of a place's node: loopback if the cluster is this machine alone."""
        addresses = {n["NodeID"]: n["NodeManagerAddress"] for n in ray.nodes() if n["Alive"]}
        if set(addresses.values()) <= {ray.util.get_node_ip_address(), LOOPBACK}:
            return LOOPBACK
        nodes = placement_group_table(self._group)["bundles_to_node_id"]
        return str(addresses[nodes[place]])

    def put(self, value: Any) -> Any:
        """Store a value in the object store and return a reference to it."""
        return ray.put(value)

    def close(self) -> None:
        """Release the places, and end the cluster or connection that this object opened."""
        was_open, self._open = self._open, False
        if was_open and ray.is_initialized():
            remove_placement_group(self._group)
            self._disconnect()

    def _disconnect(self) -> None:
        if self._connected:
            ray.shutdown()
            _handle_sigterm(self._sigterm)


def _handle_sigterm(handler: Any) -> None:
    """Replace Ray's handler, which ends the cluster while the run still uses it."""
    if handler is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)


def _check_reachable(address: str) -> None:
    """Raise ConfigError for an address without a listener, which Ray would try for minutes."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), CONNECTED_WITHIN).close()
    except (OSError, ValueError, OverflowError) as error:
        raise ConfigError(
            f"engine.address: got {address!r} ({error}); allowed: HOST:PORT as `ray start --head` "
            "prints it, or auto on a machine that is a node of the cluster"
        ) from error
