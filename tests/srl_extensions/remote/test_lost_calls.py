"""Steps whose connection is lost on the way."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

import srl_envs
from srl_envs.env_checker import _same as same
from srl_extensions.remote import connect

OPTIONS = {"num_agents": 2, "max_cycles": 50}


class Cable:
    """Carries connections to a server, and can lose what comes back."""

    def __init__(self, address):
        host, port = address.split(":")
        self._target = host, int(port)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"
        self.lose = threading.Event()
        self.lost = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self._listening.close()

    def _accept(self):
        try:
            while True:
                near, _ = self._listening.accept()
                far = socket.create_connection(self._target)
                ends = [(near, far, False), (far, near, True)]
                for source, sink, comes_back in ends:
                    threading.Thread(
                        target=self._carry, args=(source, sink, comes_back), daemon=True
                    ).start()
        except OSError:
            return  # closed

    def _carry(self, source, sink, comes_back):
        with suppress(OSError):
            while data := source.recv(65536):
                if comes_back and self.lose.is_set():
                    self.lose.clear()
                    self.lost += 1
                    break
                sink.sendall(data)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


def test_step_whose_reply_is_lost_is_sent_again_and_played_once(start):
    cable = Cable(start().address)
    local = srl_envs.make("coop_compete_v0", **OPTIONS)
    with connect(cable.address) as server:
        env = server.env("coop_compete_v0", **OPTIONS)
        assert same(local.reset(seed=1), env.reset(seed=1))
        for turn in range(6):
            if turn % 2:
                cable.lose.set()
            actions = {"agent_0": turn % 2, "agent_1": 1}
            assert same(local.step(actions), env.step(actions))
    cable.close()
    assert cable.lost == 3
