"""`srl serve env`."""

import signal
import socket
import subprocess
import sys

import pytest

from srl_extensions.remote import connect
from srl_extensions.remote.messages import RemoteError
from srl_train import cli


def test_environments_are_served_until_a_signal():
    words = ["-m", "srl_train.cli", "serve", "env", "maze_race_v0", "--port", "0", "--lease", "60"]
    server = subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True)
    try:
        with connect(server.stdout.readline().split()[-1]) as client:
            client.env("maze_race_v0", width=5, height=5).reset(seed=0)
            with pytest.raises(RemoteError, match="'maze_v0' is not offered here"):
                client.env("maze_v0")
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=60)
    finally:
        server.kill()
        server.wait()
    assert server.returncode == 0


def test_port_in_use_is_an_error(capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert cli.main(["serve", "env", "maze_v0", "--port", port]) == 2
    assert "the port is free (0 takes a free one)" in capsys.readouterr().err
