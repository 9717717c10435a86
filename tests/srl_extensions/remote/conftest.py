"""Servers of environments in this process."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from srl_envs import registry

# Fixtures import what needs gRPC: openenv/ is tested in an environment without it.


@pytest.fixture(scope="session")
def everything():
    """A connection to a server that offers the whole catalogue."""
    from srl_extensions.remote import connect
    from srl_extensions.remote.grpc_server import ServerSettings, in_thread

    settings = ServerSettings(environments=registry.names())
    with in_thread(settings) as running, connect(running.address) as server:
        yield server


@pytest.fixture
def start():
    """Starts servers with their own settings, which end with the test."""
    from srl_extensions.remote.grpc_server import ServerSettings, in_thread

    with ExitStack() as ends:

        def started(**settings):
            settings.setdefault("environments", ["coop_compete_v0"])
            return ends.enter_context(in_thread(ServerSettings(**settings)))

        yield started
