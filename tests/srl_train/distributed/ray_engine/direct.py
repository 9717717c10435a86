"""Workers called directly, in this process, whose processes seem to die when told."""

import pickle
import threading
from contextlib import nullcontext

from srl_train.distributed.ray_engine.engine import engine_on
from srl_train.distributed.ray_engine.player import PlayerWorker
from srl_train.distributed.ray_engine.server import ServerWorker
from srl_train.distributed.ray_engine.server_access import PublishedElsewhere
from srl_train.distributed.ray_engine.standing import WorkerLost

ONE_AT_A_TIME = threading.Lock()
"""What separate processes have for themselves is one here: generators, torch's default device."""


class Direct:
    """What is sent and answered is pickled on the way, as between processes."""

    def __init__(self, held, dies):
        self._held, self._dies, self._dead = held, dies, False
        # Others wait for servers, and whoever asks servers for them.
        plays = isinstance(held, PlayerWorker)
        asks = plays and isinstance(held._players.publisher, PublishedElsewhere)
        self._alone = not isinstance(held, ServerWorker) and not asks

    def call(self, method, *arguments):
        if self._dead:
            raise WorkerLost("it is dead")
        with ONE_AT_A_TIME if self._alone else nullcontext():
            given = getattr(self._held, method)(*pickle.loads(pickle.dumps(arguments)))
        if self._dies(method):  # after all was done, and before anybody heard of it
            self.stop()
            raise WorkerLost("killed")
        return pickle.loads(pickle.dumps(given))

    def stop(self):
        self._dead = True
        if isinstance(self._held, ServerWorker):
            self._held.kill()  # as a process's guard does
        if isinstance(self._held, PlayerWorker):
            self._held._players.close()  # what would go on asking in this process


class DirectPlaces:
    def __init__(self, dies=lambda method: False):
        self.dies, self.made, self.closed = dies, [], False

    def actor(self, places, kind, *arguments):
        with nullcontext() if kind is ServerWorker else ONE_AT_A_TIME:
            if self.closed:
                raise WorkerLost("the places are closed")
            self.made.append(places)
            return Direct(kind(*pickle.loads(pickle.dumps(arguments))), self.dies)

    def host(self, place):
        return "127.0.0.1"

    def put(self, value):
        return pickle.loads(pickle.dumps(value))

    def close(self):
        with ONE_AT_A_TIME:  # once nothing is being made
            self.closed = True


def direct_engine(monkeypatch, places):
    """Has `assemble` make the Ray engine's workers at `places`."""
    monkeypatch.setattr(
        "srl_train.distributed.ray_engine.engine.start_engine",
        lambda config, engine, make_env, logs: engine_on(places, config, engine, make_env, logs),
    )
