"""A server of environments in this process, and what tests of it share."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from srl_envs import registry

# What needs grpc is imported by the fixtures: openenv/ is tested where there is none.

EVERYTHING = registry.names()


@pytest.fixture(scope="session")
def everything():
    """A connection to a server that offers the whole catalogue."""
    from srl_envs.remote import connect
    from srl_envs.remote.server.serve import in_thread
    from srl_envs.remote.server.settings import ServerSettings

    settings = ServerSettings(environments=EVERYTHING)
    with in_thread(settings) as running, connect(running.address) as server:
        yield server


@pytest.fixture
def start():
    """Starts servers with settings of their own, which end with the test."""
    from srl_envs.remote.server.serve import in_thread
    from srl_envs.remote.server.settings import ServerSettings

    with ExitStack() as ends:

        def started(*, player=None, **settings):
            settings.setdefault("environments", ["coop_compete_v0"])
            return ends.enter_context(in_thread(ServerSettings(**settings), player))

        yield started
