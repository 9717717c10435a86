"""Servers of the fake program, in the place of vLLM's."""

import asyncio
import json
import socket
import sys
from pathlib import Path

import pytest

from srl_agents.serving import server as server_module
from srl_agents.serving import supervisor
from srl_agents.serving.command import ServerSpec
from srl_agents.serving.server import ModelServer


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    """Between two looks at a server; the programs themselves take milliseconds."""
    monkeypatch.setattr(server_module, "POLL", 0.05)
    monkeypatch.setattr(supervisor, "LOOK", 0.05)


@pytest.fixture
def fake_python(tmp_path):
    """An interpreter that runs the fake server whatever module it is to run."""
    script = tmp_path / "python"
    program = Path(__file__).with_name("fake_server.py")
    script.write_text(f'#!/bin/sh\nexec {sys.executable} {program} "$@"\n')
    script.chmod(0o755)
    return str(script)


@pytest.fixture
def spec(fake_python, tmp_path):
    def make(*, port=None, served_name="base", **fake):
        return ServerSpec(
            model=str(tmp_path),
            served_name=served_name,
            port=port or any_port(),
            log_folder=tmp_path / "logs",
            python=fake_python,
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
