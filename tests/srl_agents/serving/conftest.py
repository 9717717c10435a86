"""Servers of the fake program, in the place of vLLM's."""

import asyncio
import json
import socket

import pytest

from srl_agents.serving import server as server_module
from srl_agents.serving import supervisor
from srl_agents.serving.command import ServerSpec
from srl_agents.serving.server import ModelServer
from tests.servers.vllm_program import interpreter


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    """Between two looks at a server; the programs themselves take milliseconds."""
    monkeypatch.setattr(server_module, "POLL", 0.05)
    monkeypatch.setattr(supervisor, "LOOK", 0.05)


@pytest.fixture(autouse=True)
def own_records(monkeypatch, tmp_path):
    """Not those of servers of other tests, which may run at the same time."""
    monkeypatch.setenv("CORE_SRL_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def spec(tmp_path):
    def make(*, port=None, served_name="base", gpus=(), keys=None, **fake):
        return ServerSpec(
            model=str(tmp_path),
            served_name=served_name,
            port=port or any_port(),
            gpus=gpus,
            keys=keys,
            log_folder=tmp_path / "logs",
            python=interpreter(tmp_path),
            extra_arguments=("--fake", json.dumps(fake)),
        )

    return make


@pytest.fixture
def new_server(spec):
    """Makes servers that end with the test."""
    made = []

    def make(**settings):
        made.append(ModelServer(spec(**settings)))
        return made[-1]

    yield make
    for one in made:
        one.kill()
        asyncio.run(one.stop())


def any_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]
