"""`srl serve env`: a server until somebody says enough, then what it refused."""

import signal
import socket
import subprocess
import sys

import pytest

from srl_envs.remote import connect
from srl_envs.remote.errors import RemoteError
from srl_envs.remote.server.settings import ServerSettings
from srl_train import cli
from srl_train.cli.serve.environments import _for_clients


def test_environments_are_served_until_somebody_says_enough():
    words = ["-m", "srl_train.cli", "serve", "env", "maze_race_v0", "--port", "0", "--lease", "60"]
    server = subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True)
    try:
        told = server.stdout.readline().split()
        with connect(told[-1]) as client:
            players = dict.fromkeys(["agent_0", "agent_1"], "explorer")
            [game] = client.play("maze_race_v0", players, [1], width=5, height=5)
            assert game.turns > 0 and set(game.returns) == set(players)
            with pytest.raises(RemoteError, match="'maze_v0' is not offered here"):
                client.env("maze_v0")
        server.send_signal(signal.SIGTERM)
        told, _ = server.communicate(timeout=60)
    finally:
        server.kill()
        server.wait()
    assert server.returncode == 0
    assert "ending, within 10 s" in told and "refused: 1 unknown environment" in told


def test_what_cannot_be_served_is_said_in_one_line(capsys):
    assert cli.main(["serve", "env", "maze_v0", "--host", "0.0.0.0"]) == 2
    assert "is reached from elsewhere: give certificate and key" in capsys.readouterr().err


def test_a_port_that_is_taken_is_told_with_what_helps(capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert cli.main(["serve", "env", "maze_v0", "--port", port]) == 2
    assert "the port free (0 takes one that is)" in capsys.readouterr().err


def test_clients_elsewhere_are_told_what_they_need():
    beyond = ServerSettings(
        environments=["maze_v0"], host="0.0.0.0", certificate="c", key="k", tokens=["t" * 16]
    )
    told = _for_clients(beyond, "0.0.0.0:50051")
    assert "grpc://HOST:50051/maze_v0" in told  # 0.0.0.0 is nobody's address
    assert told.endswith("with SRL_ENV_TOKEN and SRL_ENV_CERTIFICATE set")
    here = _for_clients(ServerSettings(environments=["maze_v0"]), "127.0.0.1:50051")
    assert here == "a client takes grpc://127.0.0.1:50051/maze_v0 for an environment"
