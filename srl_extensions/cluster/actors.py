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
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
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
    from ray.util.placement_group import placement_group, remove_placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

log = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
PLACED_WITHIN = 120.0
"""Seconds for the cluster to reserve the places of a run."""
CONNECTED_WITHIN = 10.0
"""Seconds for the cluster's head to accept a connection."""
MOST_DEATHS = 3
"""Deaths of an actor in one call after which the run ends."""


class Host:
    """Ray actor with one object, `kind(*arguments)`.

    The first `call` builds the object, and raises errors of the constructor.
    """

    def __init__(self, kind: Callable[..., Any], arguments: Sequence[Any]) -> None:
        self._kind, self._arguments = kind, arguments
        self._object: Any = None
        self._identity = secrets.token_hex(8)

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of the object; return the result."""
        if self._object is None:
            self._object = self._kind(*self._arguments)
        return getattr(self._object, method)(*arguments)

    @ray.method(max_task_retries=-1)  # type: ignore[untyped-decorator]  # Ray has no types here.
    def identity(self) -> str:
        """Return a random id of this process, which a restart changes."""
        return self._identity


class Actor:
    """Caller of an object in a Ray actor of the class Host, one call after another.

    Ray restarts an actor whose process died; the call is then repeated. The object is built anew,
    so a call must contain all state that it depends on. `handle` is Ray's; messages use `name`.
    """

    def __init__(self, name: str, handle: Any) -> None:
        self.name, self._handle = name, handle
        self._identity: str | None = None
        self._thread = ThreadPoolExecutor(1, name)
        self._stopped = False

    def submit(self, method: str, *arguments: Any) -> Future[Any]:
        """Call a method of the object after all earlier calls; return the future of its result.

        The future raises exceptions of the method unchanged. It raises TrainingError if the actor
        is stopped during the call, cannot be restarted, or died 3 times in this call.

        Raises:
            TrainingError: The actor was stopped before.
        """
        if self._stopped:
            raise TrainingError(f"{self.name} ended with the run")
        return self._thread.submit(self._call, method, *arguments)

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method as `submit` does, wait, and return its result or raise its exception."""
        return self.submit(method, *arguments).result()

    def stop(self) -> None:
        """End the actor: cancel waiting calls; current and later ones raise TrainingError."""
        self._stopped = True
        self._thread.shutdown(wait=False, cancel_futures=True)
        if ray.is_initialized():
            ray.kill(self._handle)

    def _call(self, method: str, *arguments: Any) -> Any:
        deaths, lost = 0, None
        while True:
            try:
                if lost is not None or self._identity is None:
                    deaths += self._was_restarted()
                if deaths == MOST_DEATHS:
                    break
                return ray.get(self._handle.call.remote(method, *arguments))
            except RayTaskError as error:
                raise getattr(error, "cause", error) from error
            except (RayActorError, ObjectLostError, OutOfMemoryError) as error:
                if self._stopped or isinstance(error, ActorDiedError):
                    raise TrainingError(f"{self.name} ended with the run") from error
                log.warning("%s died: %s", self.name, error)
                lost = error
        raise TrainingError(
            f"{self.name} died {MOST_DEATHS} times in {method}: check the memory of its node, and "
            "Ray's logs there (/tmp/ray)"
        ) from lost

    def _was_restarted(self) -> bool:
        before, self._identity = self._identity, ray.get(self._handle.identity.remote())
        if self._identity == before:  # Ray restarts the process of a lost node only later.
            time.sleep(1.0)
        return before not in (None, self._identity)


class Cluster:
    """Connection to a Ray cluster, with reserved resources (a "place") for each actor of a run.

    The first `config.rollout_workers` places are for players, the next `models` for learners. The
    constructor uses an existing Ray connection of the process. Without one, it connects to
    `config.address`, or starts a local cluster if the address is None. Raises ConfigError if there
    is no cluster at the address, or the places are not reserved within 120 seconds.
    """

    def __init__(self, config: RayEngineConfig, models: int) -> None:
        player = {"CPU": config.actor_cpus, "GPU": config.rollout_worker_gpus}
        learner = {"CPU": config.actor_cpus, "GPU": config.learner_gpus}
        bundles = [player] * config.rollout_workers + [learner] * models
        actors = f"{config.rollout_workers} workers and {models} learners"
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

    def actor(self, name: str, place: int, kind: Callable[..., Any], *arguments: Any) -> Actor:
        """Start and return an Actor of `kind(*arguments)` in the place with index `place`."""
        options = ray.remote(Host).options(
            num_cpus=self._bundles[place].get("CPU", 0),
            num_gpus=self._bundles[place].get("GPU", 0),
            max_restarts=-1,
            scheduling_strategy=PlacementGroupSchedulingStrategy(self._group, place),
        )
        return Actor(name, options.remote(kind, arguments))

    @property
    def is_one_machine(self) -> bool:
        """True if all live nodes of the cluster have this machine's address."""
        addresses = {node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}
        return addresses <= {ray.util.get_node_ip_address(), LOOPBACK}

    def put(self, value: Any) -> Any:
        """Store a value in the object store; return its reference."""
        return ray.put(value)

    def close(self) -> None:
        """Release the reserved places, and end the cluster or connection that was opened here."""
        was_open, self._open = self._open, False
        if was_open and ray.is_initialized():
            remove_placement_group(self._group)
            self._disconnect()

    def _disconnect(self) -> None:
        if self._connected:
            ray.shutdown()
            _handle_sigterm(self._sigterm)


def _handle_sigterm(handler: Any) -> None:
    if handler is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)


def _check_reachable(address: str) -> None:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), CONNECTED_WITHIN).close()
    except (OSError, ValueError, OverflowError) as error:
        raise ConfigError(
            f"engine.address: got {address!r} ({error}); allowed: HOST:PORT as `ray start --head` "
            "prints it, or auto on a machine that is a node of the cluster"
        ) from error
