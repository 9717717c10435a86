"""Supervision of servers: those that die come up again, within a limit."""

import asyncio
import os
import signal
from contextlib import asynccontextmanager

import pytest

from srl_agents.errors import BackendError, ServingError
from srl_agents.serving import supervisor as supervision
from srl_agents.serving.process.loopback import complete_one_token
from srl_agents.serving.server import ModelServer
from srl_agents.serving.supervisor import Supervisor

from .test_server import engine_of, gone


class Told:
    """What a supervisor told, in order."""

    def __init__(self):
        self.events, self.failing = [], 0

    async def on_up(self, server):
        self.events.append(("up", server.spec.served_name))
        if self.failing:
            self.failing -= 1
            raise BackendError("an adapter is gone")

    def on_down(self, server):
        self.events.append(("down", server.spec.served_name))

    def on_lost(self, server):
        self.events.append(("lost", server.spec.served_name))

    async def until(self, count):
        async with asyncio.timeout(20):
            while len(self.events) < count:
                await asyncio.sleep(0.02)


@asynccontextmanager
async def supervised(servers, told, **settings):
    supervisor = Supervisor(
        servers, on_up=told.on_up, on_down=told.on_down,
        on_lost=told.on_lost, first_wait=0.01, start_timeout=20,
        **settings,
    )  # fmt: skip
    await supervisor.start()
    try:
        yield supervisor
    finally:
        await supervisor.stop()


def test_servers_that_share_a_gpu_start_one_after_another(new_server, monkeypatch):
    starting, together, at_once = set(), [], asyncio.Event()

    async def wait_ready(server, timeout):
        name = server.spec.served_name
        starting.add(name)
        if starting >= {"a", "c", "e"}:
            at_once.set()
        if name in "ace":  # until the others are there too
            await asyncio.wait_for(at_once.wait(), 20)
        await asyncio.sleep(0.05)
        together.append("".join(sorted(starting)))
        starting.remove(name)

    monkeypatch.setattr(ModelServer, "wait_ready", wait_ready)
    gpus = {"a": (0, 1), "b": (1,), "c": (2,), "d": (0,), "e": ()}
    servers = [new_server(served_name=name, gpus=own) for name, own in gpus.items()]

    async def course():
        async with supervised(servers, Told()):
            pass

    asyncio.run(course())
    assert "ace" in together, "the others at once"
    assert not any({"a", "b"} <= set(seen) or {"a", "d"} <= set(seen) for seen in together)
    assert len(together) == 5


@pytest.mark.parametrize("victim", ["engine", "server"])
def test_a_server_that_dies_comes_up_again_before_it_gets_requests(new_server, victim):
    told, server, other = Told(), new_server(), new_server(served_name="other")

    async def course():
        async with supervised([server, other], told) as supervisor:
            assert sorted(told.events) == [("up", "base"), ("up", "other")]
            first = engine_of(server)
            if victim == "engine":  # the server says 503 from then on, and lives
                os.kill(first, signal.SIGKILL)
            else:
                os.killpg(server._process.pid, signal.SIGKILL)
            await told.until(4)
            assert told.events[2:] == [("down", "base"), ("up", "base")]
            await complete_one_token(server.url, "base", 5)
            assert supervisor.restarts == {server: 1, other: 0}
            supervisor.check()
            assert gone(first)

    asyncio.run(course())
    assert not server.alive and not other.alive


def test_what_cannot_be_loaded_again_makes_another_restart(new_server):
    told, server = Told(), new_server()

    async def course():
        async with supervised([server], told) as supervisor:
            told.failing = 1
            server.kill()
            await told.until(4)
            await asyncio.sleep(0.1)
            assert supervisor.restarts[server] == 2
            assert told.events[1:] == [("down", "base"), ("up", "base"), ("up", "base")]

    asyncio.run(course())


def test_after_the_last_restart_it_says_so(new_server, monkeypatch):
    told, server = Told(), new_server()

    async def course():
        async with supervised([server], told, max_restarts=1) as supervisor:
            server.kill()
            await told.until(3)
            await complete_one_token(server.url, "base", 5)
            server.kill()
            await told.until(5)
            await asyncio.sleep(0.1)
            with pytest.raises(ServingError, match="1 restarts are allowed and were not enough"):
                supervisor.check()

    asyncio.run(course())
    assert told.events[-2:] == [("down", "base"), ("lost", "base")]


def test_one_that_does_not_start_ends_all(new_server):
    good, bad = new_server(), new_server(dies="no such model")

    async def course():
        async with supervised([good, bad], Told()):
            pass

    with pytest.raises(ServingError, match="no such model"):
        asyncio.run(course())
    assert not good.alive


def test_a_server_that_answers_no_more_is_taken_for_dead(new_server, monkeypatch):
    monkeypatch.setattr(supervision, "HANGS_AFTER", 0.3)
    told, server = Told(), new_server()

    async def course():
        async with supervised([server], told):
            os.killpg(server._process.pid, signal.SIGSTOP)
            await told.until(3)

    asyncio.run(course())


def test_a_wait_doubles_with_each_attempt_in_a_row(new_server, caplog):
    told, server = Told(), new_server()

    async def course():
        async with supervised([server], told):
            told.failing = 2
            server.kill()
            await told.until(5)
            server.kill()
            await told.until(7)

    asyncio.run(course())
    said = [line for line in caplog.messages if line.startswith("restart")]
    assert [line.split()[3] for line in said] == ["0.01", "0.02", "0.04", "0.01"]
    assert "did not come up again: an adapter is gone" in said[1]
