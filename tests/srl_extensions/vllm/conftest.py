"""Servers that run a fake program instead of vLLM."""

import contextlib
import itertools
import json
import os
import socket

import pytest

from srl_extensions.vllm import client, fleet
from srl_extensions.vllm.fleet import Fleet
from srl_extensions.vllm.server import ModelServer, ServerSpec
from tests.servers.vllm_program import interpreter
from tests.servers.vllm_stub import stub_server
from tests.srl_agents.llm.conftest import one_thread  # noqa: F401
from tests.srl_train.conftest import short_run  # noqa: F401


@pytest.fixture(autouse=True)
def short_waits(monkeypatch, tmp_path):
    """Shorten all waits, and write logs to a folder of the test."""
    monkeypatch.setattr(fleet, "LOOK", 0.05)
    monkeypatch.setattr(fleet, "RESTART_WAIT", 0.05)
    monkeypatch.setattr(fleet, "START_TIMEOUT", 20)
    monkeypatch.setattr(client, "MAX_RETRIES", 1)
    monkeypatch.setenv("CORE_SRL_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def stub(tiny_folder):
    with stub_server(tiny_folder) as running:
        yield running


@pytest.fixture
def spec(tmp_path):
    def make(*, port=None, served_name="base", gpus=(), **fake):
        return ServerSpec(
            model=str(tmp_path),
            served_name=served_name,
            port=port or any_port(),
            gpus=gpus,
            log_folder=tmp_path / "logs",
            python=interpreter(tmp_path),
            extra_arguments=("--fake", json.dumps(fake)),
        )

    return make


@pytest.fixture
def new_server(spec):
    """Function that creates a server, which ends with the test."""
    made = []

    def make(**settings):
        made.append(ModelServer(spec(**settings)))
        return made[-1]

    yield make
    for one in made:
        one.kill()


@pytest.fixture
def new_fleet():
    """Function that starts a fleet, which ends with the test."""
    made = []

    def make(*specs, **settings):
        made.append(Fleet.managed(specs, **settings))
        return made[-1]

    yield make
    for one in made:
        one.close()


PORTS = itertools.count(10_000 + os.getpid() * 50 % 20_000)
"""Ports below those that the kernel assigns to connections, different in each test process."""


def any_port():
    for port in PORTS:
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError
