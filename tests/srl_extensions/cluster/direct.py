"""Imitation of Ray: actors are objects of this process, and die when a test requests it."""

import pickle
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

from srl_extensions.cluster import engine
from srl_extensions.cluster.players import PlayerWorker
from srl_train.errors import TrainingError

ONE_AT_A_TIME = threading.Lock()
"""Lock of actors that share the random generator and default device of this process."""


class DirectActor:
    """Actor that pickles arguments and results, and repeats a call after a death."""

    def __init__(self, name, kind, arguments, dies, attempts):
        self._attempts = attempts
        self.name, self.deaths, self._stopped, self._object = name, 0, False, None
        self._kind, self._arguments, self._dies = kind, pickle.dumps(arguments), dies
        self._thread = ThreadPoolExecutor(1)

    def submit(self, method, *arguments):
        return self._thread.submit(self._call, method, *arguments)

    def call(self, method, *arguments):
        return self.submit(method, *arguments).result()

    def _call(self, method, *arguments):
        for _ in range(self._attempts):
            if self._stopped:
                raise TrainingError(f"{self.name} ended with the run")
            with self._alone():
                if self._object is None:
                    self._object = self._kind(*pickle.loads(self._arguments))
                sent = pickle.loads(pickle.dumps(arguments))
                result = getattr(self._object, method)(*sent)
            if not self._dies(arguments[1].method if method == "run" else method):
                return pickle.loads(pickle.dumps(result))
            self.deaths += 1  # The actor dies before it sends its result.
            self._end()
        raise TrainingError(f"{self.name} died {self.deaths} times in {method}")

    def _alone(self):
        """Return the lock of a call; players that wait for servers need none."""
        waits = self._kind is PlayerWorker and pickle.loads(self._arguments)[3]
        return nullcontext() if waits else ONE_AT_A_TIME

    def _end(self):
        if isinstance(self._object, PlayerWorker):
            self._object._players.close()
        self._object = None

    def stop(self):
        self._stopped = True
        self._end()


class DirectCluster:
    """Cluster of `DirectActor`; after a call, the actor dies if `dies(method)`."""

    def __init__(self, dies=lambda method: False, attempts=3):
        self._settings, self.actors, self.closed = (dies, attempts), {}, False

    is_one_machine = True

    def actor(self, name, place, kind, *arguments):
        self.actors[name] = DirectActor(name, kind, arguments, *self._settings)
        return self.actors[name]

    def put(self, value):
        return pickle.loads(pickle.dumps(value))

    def close(self):
        self.closed = True

    @property
    def deaths(self):
        return sum(actor.deaths for actor in self.actors.values())


def use(monkeypatch, cluster):
    """Make runs of this test use the cluster, and return the cluster."""
    monkeypatch.setattr(engine, "open_cluster", lambda *_: cluster)
    return cluster


def on_ray(config, **settings):
    return config.replaced(engine=engine.RayEngineConfig(**settings))


def deaths_of(methods):
    """Return `dies` for DirectCluster, true for the second call of each method, and its deaths."""
    calls, deaths = Counter(), []

    def dies(method):
        calls[method] += 1
        if method not in methods or calls[method] != 2:
            return False
        deaths.append(method)
        return True

    return dies, deaths
