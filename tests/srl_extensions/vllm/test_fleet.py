"""Fleets: servers started or attached to behind one router, and their failures."""

import asyncio
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from srl_agents.errors import BackendError, ServingError
from srl_agents.llm.backends import background_loop
from srl_agents.llm.sampling import Sampling
from srl_extensions.vllm import fleet as fleets
from srl_extensions.vllm.fleet import Fleet, wait_ready
from srl_extensions.vllm.routing import RoutedTask
from srl_extensions.vllm.server import is_free
from tests.srl_extensions.vllm.conftest import any_port
from tests.srl_extensions.vllm.test_server import engine_of, gone, until


def attached(urls, **settings):
    return Fleet.attached(urls, **({"concurrency": 4} | settings))


def send(fleet, requests=1, base="base"):
    """Send requests at once and return the addresses of the servers that answered."""

    async def one(client):
        sampling = Sampling(max_new_tokens=1)
        await client.complete(base, [[0]], sampling=sampling, max_tokens=1, stop_ids=())
        return client.url

    async def all_at_once():
        task, router = RoutedTask(owner="model"), fleet.routers[base]
        return await asyncio.gather(*(router.run(task, one) for _ in range(requests)))

    return background_loop.run(all_at_once())


def kill(member):
    """Kill the process group of a server, as a crash does."""
    os.killpg(member.server.process.pid, signal.SIGKILL)


class Loads:
    """Function for `on_up` that records its calls, may fail and may be delayed."""

    def __init__(self):
        self.urls, self.may_continue, self.failures = [], threading.Event(), 0
        self.may_continue.set()

    async def __call__(self, base, client):
        self.urls.append(client.url)
        await asyncio.to_thread(self.may_continue.wait, 20)
        if self.failures:
            self.failures -= 1
            raise BackendError("an adapter is gone")


def test_fleet_starts_uses_and_ends_servers_of_two_bases(spec, new_fleet):
    specs = [spec(), spec(), spec(served_name="other")]
    fleet = new_fleet(*specs)
    assert set(send(fleet, 8)) == {specs[0].url, specs[1].url}
    assert send(fleet, base="other") == [specs[2].url]
    assert [client.url for client in fleet.clients("other")] == [specs[2].url]
    engines = [engine_of(member.server) for member in fleet.members]
    fleet.check()
    fleet.close()
    fleet.check()
    assert all(gone(engine) for engine in engines)


@pytest.mark.parametrize("victim", ["engine", "server"])
def test_a_killed_server_is_restarted_and_loaded_before_its_next_request(spec, new_fleet, victim):
    specs = [spec(), spec()]
    fleet = new_fleet(*specs)
    loads, [member, other] = Loads(), fleet.members
    loads.may_continue.clear()
    fleet.on_up(loads)
    engine = engine_of(member.server)
    if victim == "engine":  # The server then replies 503 and lives.
        os.kill(engine, signal.SIGKILL)
    else:
        kill(member)
    until(lambda: loads.urls)
    assert set(send(fleet, 8)) == {specs[1].url}
    assert [client.url for client in fleet.clients("base")] == [specs[1].url]
    loads.may_continue.set()
    until(lambda: len(fleet.clients("base")) == 2)
    assert set(send(fleet, 8)) == {specs[0].url, specs[1].url}
    assert loads.urls == [specs[0].url]
    assert (member.restarts, other.restarts) == (1, 0) and gone(engine)


def test_a_server_that_does_not_reply_is_restarted(spec, new_fleet, monkeypatch):
    monkeypatch.setattr(fleets, "HANGS_AFTER", 0.3)
    fleet = new_fleet(spec())
    os.killpg(fleet.members[0].server.process.pid, signal.SIGSTOP)
    until(lambda: fleet.members[0].restarts and fleet.members[0].up)


def test_a_server_beyond_its_restarts_is_given_up(spec, new_fleet):
    fleet = new_fleet(spec(), restarts=1)
    [member] = fleet.members
    kill(member)
    until(lambda: member.restarts == 1 and member.up)
    kill(member)
    with pytest.raises(BackendError, match="no server takes part"):
        send(fleet)
    with pytest.raises(ServingError, match="1 restarts are allowed and were not enough"):
        fleet.check()


@pytest.mark.parametrize(
    ("fake", "words"),
    [
        ({"dies": "no such model"}, r"ended as it started: started / no such model"),
        ({"dies_of_request": True}, "ended as it started: ValueError: head size 16; its log"),
    ],
)
def test_failed_start_of_one_server_ends_all(spec, new_fleet, new_server, fake, words):
    good = spec()
    with pytest.raises(ServingError, match=words):
        new_fleet(good, spec(**fake))
    new_server(port=good.port).start()  # Its port is free again.


def test_servers_that_share_a_gpu_start_one_after_another(spec, new_fleet, monkeypatch):
    starting, together, others = set(), [], asyncio.Event()

    async def ready(server, client, timeout):
        name = server.spec.served_name
        starting.add(name)
        if starting >= {"a", "c", "e"}:
            others.set()
        if name in "ace":
            await asyncio.wait_for(others.wait(), 20)
        await wait_ready(server, client, timeout)
        together.append("".join(sorted(starting)))
        starting.remove(name)

    monkeypatch.setattr(fleets, "wait_ready", ready)
    gpus = {"a": (0, 1), "b": (0, 1), "c": (2,), "d": (0, 1), "e": ()}
    new_fleet(*(spec(served_name=name, gpus=own) for name, own in gpus.items()))
    assert len(together) == 5
    assert not any({"a", "b"} <= set(seen) or {"a", "d"} <= set(seen) for seen in together)


def test_attached_server_may_end_and_return(new_server):
    server = new_server()
    server.start()
    until(lambda: not is_free(server.spec.port))
    with attached({"base": [server.spec.url]}) as fleet:
        loads = Loads()
        fleet.on_up(loads)
        assert send(fleet) == [server.spec.url]
        server.kill()
        # A request that is sent earlier could repeat its call until the server is back.
        until(lambda: not fleet.clients("base"))
        waiting = threading.Thread(target=send, args=(fleet,))
        waiting.start()
        assert waiting.is_alive() and not loads.urls
        server.start()
        waiting.join(20)
        assert not waiting.is_alive() and loads.urls == [server.spec.url]
        fleet.check()
    assert server.alive()


def test_close_fails_requests_that_wait_for_a_server(new_server):
    server = new_server()
    server.start()
    until(lambda: not is_free(server.spec.port))
    fleet = attached({"base": [server.spec.url]})
    server.kill()
    until(lambda: not fleet.clients("base"))
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(send, fleet)
        fleet.close()
        with pytest.raises(BackendError, match="no server takes part"):
            waiting.result(20)


def test_an_unreachable_server_is_reported(monkeypatch):
    monkeypatch.setattr("srl_extensions.vllm.fleet.MAX_WAIT", 1.0)
    with pytest.raises(BackendError, match=r"127\.0\.0\.1"):
        attached({"base": [f"http://127.0.0.1:{any_port()}"]})
