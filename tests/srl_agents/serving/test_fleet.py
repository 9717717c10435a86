"""Fleets: servers started or attached to behind one scheduler, through deaths and returns."""

import asyncio
import threading
import time
from functools import partial

import pytest

from srl_agents.errors import BackendError, ServingError
from srl_agents.llm.backends import background_loop
from srl_agents.serving import endpoint
from srl_agents.serving import fleet as fleets
from srl_agents.serving.command import Keys
from srl_agents.serving.fleet import Fleet
from srl_agents.serving.scheduler import Task
from srl_agents.serving.supervisor import Supervisor

from .conftest import any_port
from .test_server import engine_of, gone, ready, until


@pytest.fixture(autouse=True)
def short_looks(monkeypatch):
    monkeypatch.setattr(fleets, "LOOK", 0.05)
    monkeypatch.setattr(endpoint, "UNREACHABLE", 0.3)
    monkeypatch.setattr(fleets, "Supervisor", partial(Supervisor, first_wait=0.05))


def managed(specs, **settings):
    return Fleet.managed(
        specs, **{"concurrency": 4, "deadline": 30.0, "start_timeout": 20} | settings
    )


def attached(urls, **settings):
    return Fleet.attached(urls, **{"concurrency": 4, "deadline": 30.0} | settings)


def ask(fleet, requests=1, base="base"):
    """The servers that answered."""

    async def one(endpoint):
        await endpoint.models()
        return endpoint.url

    async def all_at_once():
        task = Task(owner="model", base=base)
        return await asyncio.gather(*(fleet.scheduler.run(task, one) for _ in range(requests)))

    return background_loop.run(all_at_once())


class Loads:
    """What is loaded into servers that come up: it notes them and may take its time."""

    def __init__(self):
        self.urls, self.may_go_on = [], threading.Event()
        self.may_go_on.set()

    async def __call__(self, base, endpoint):
        assert base == "base"
        self.urls.append(endpoint.url)
        await asyncio.to_thread(self.may_go_on.wait, 20)


def test_servers_of_two_bases_are_started_used_and_ended(spec):
    specs = [spec(), spec(), spec(served_name="other")]
    with managed(specs) as fleet:
        assert set(ask(fleet, 8)) == {specs[0].url, specs[1].url}
        assert ask(fleet, base="other") == [specs[2].url]
        assert [endpoint.url for endpoint in fleet.endpoints("other")] == [specs[2].url]
        engines = [engine_of(server) for server in fleet._servers]
        fleet.check()
    assert all(gone(engine) for engine in engines)


def test_a_server_that_died_takes_requests_once_its_adapters_are_loaded(spec):
    specs = [spec(), spec()]
    with managed(specs) as fleet:
        loads = Loads()
        loads.may_go_on.clear()
        fleet.on_up(loads)
        victim, _ = fleet._servers
        victim.kill()
        until(lambda: loads.urls)
        assert set(ask(fleet, 8)) == {specs[1].url}
        assert [endpoint.url for endpoint in fleet.endpoints("base")] == [specs[1].url]
        loads.may_go_on.set()
        until(lambda: len(fleet.endpoints("base")) == 2)
        assert set(ask(fleet, 8)) == {specs[0].url, specs[1].url}
        assert loads.urls == [specs[0].url]


def test_guests_are_answered_once_the_owner_has_loaded_what_a_server_lost(spec):
    keys = Keys.drawn()
    with managed([spec(keys=keys)]) as fleet:
        [server] = fleet._servers
        loads = Loads()
        loads.may_go_on.clear()
        fleet.on_up(loads)
        with attached({"base": [server.url]}, key=keys.guest) as guests:
            assert ask(guests) == [server.url]
            server.kill()
            until(lambda: loads.urls)  # the server is up, and answers its owner
            waiting = [threading.Thread(target=ask, args=(guests,)) for _ in range(2)]
            for thread in waiting:
                thread.start()
            time.sleep(0.2)
            with pytest.raises(BackendError, match="503"):
                attached({"base": [server.url]}, key=keys.guest)
            late = threading.Thread(target=lambda: attached(
                {"base": [server.url]}, key=keys.guest, patience=20.0).close())  # fmt: skip
            late.start()
            assert all(thread.is_alive() for thread in (*waiting, late))
            loads.may_go_on.set()
            for thread in (*waiting, late):
                thread.join(20)
            assert not any(thread.is_alive() for thread in (*waiting, late))
        with pytest.raises(BackendError, match="401"):
            attached({"base": [server.url]})


def test_requests_of_a_server_given_up_fail_and_the_reason_is_told(spec):
    with managed([spec()], max_restarts=0) as fleet:
        [server] = fleet._servers
        server.kill()
        with pytest.raises(BackendError, match="no server of base 'base'"):
            ask(fleet)
        until(lambda: not fleet.endpoints("base"))
        with pytest.raises(ServingError, match="0 restarts are allowed"):
            fleet.check()


def test_one_that_does_not_start_ends_all(spec, new_server):
    good = spec()
    with pytest.raises(ServingError, match="no such model"):
        managed([good, spec(dies="no such model")])
    new_server(port=good.port).start()  # its port is free again


def test_an_attached_server_may_go_and_come_back(new_server):
    server = new_server()
    asyncio.run(ready(server))
    with attached({"base": [server.url]}) as fleet:
        loads = Loads()
        fleet.on_up(loads)
        assert ask(fleet) == [server.url]
        server.kill()
        waiting = threading.Thread(target=ask, args=(fleet,))
        waiting.start()
        until(lambda: not fleet.endpoints("base"))
        assert waiting.is_alive() and not loads.urls
        server.start()
        waiting.join(20)
        assert not waiting.is_alive() and loads.urls == [server.url]
        fleet.check()
    assert server.alive


def test_what_cannot_train_is_not_attached_to(new_server):
    def refused(pattern, base="base", **fake):
        server = new_server(**fake)
        asyncio.run(ready(server))
        with pytest.raises((BackendError, ServingError), match=pattern):
            attached({base: [server.url]})

    refused("--logits-processors answer_trie:AnswerTrie", free=True)
    refused("--logprobs-mode processed_logprobs", raw=True)
    refused("does not know 'other'", base="other")
    with pytest.raises(BackendError, match=r"127\.0\.0\.1"):
        attached({"base": [f"http://127.0.0.1:{any_port()}"]}, deadline=1.0)
