"""Router: shares, limits, prefixes, failures and cancellations, in virtual time."""

import asyncio
import math
from collections import Counter
from dataclasses import dataclass, field

import pytest

from srl_agents.errors import BackendError, ServerUnavailable, ServingError
from srl_extensions.vllm.routing import MOST_MOVES, REST, SLACK, RoutedTask, Router
from tests.srl_extensions.vllm import virtual_time

ONE = RoutedTask("one", 10)  # one second of work


@dataclass(eq=False)
class SlowServer:
    """Server that spends one second per ten tokens of a request."""

    name: str
    dead: bool = False
    received: int = 0
    answered: list = field(default_factory=list)

    async def answer(self, task):
        self.received += 1
        if self.dead:
            raise ServerUnavailable(f"{self.name} refuses connections")
        await asyncio.sleep(task.cost / 10)
        if self.dead:
            raise ServerUnavailable(f"{self.name} closed the connection")
        self.answered.append(task)
        return self.name


@pytest.fixture
def servers():
    return [SlowServer("a"), SlowServer("b")]


def router_of(servers, *, capacity=4, **settings):
    router = Router(**settings)
    for server in servers:
        router.add(server, capacity=capacity)
    return router


def send(router, task=ONE):
    return asyncio.ensure_future(router.run(task, lambda server: server.answer(task)))


def now():
    return asyncio.get_running_loop().time()


@pytest.mark.parametrize(
    ("sharing", "shares"), [("fair", [1 / 2, 1 / 2]), ("priority", [3 / 4, 1 / 4])]
)
def test_owners_receive_their_shares_while_a_server_fails_and_returns(servers, sharing, shares):
    async def play():
        router = router_of(servers, max_wait=3000)
        if sharing == "priority":
            router.set_score("one", math.log(3))
        tasks = [
            RoutedTask(owner, cost)
            for owner, cost in [("one", 5), ("two", 20)]
            for _ in range(1000)
        ]
        requests = [send(router, task) for task in tasks]
        await asyncio.sleep(20)
        servers[1].dead = True
        router.remove(servers[1])
        await asyncio.sleep(20)
        servers[1].dead = False
        router.add(servers[1], capacity=4)
        await asyncio.sleep(20)
        tokens = [router.owners[owner].tokens for owner in ("one", "two")]
        await asyncio.gather(*requests)
        assert sum(owner.done for owner in router.owners.values()) == len(tasks)
        return [own / sum(tokens) for own in tokens]

    assert virtual_time.run(play()) == pytest.approx(shares, rel=0.1)


def test_idle_owner_gains_no_credit(servers):
    order = []

    async def play():
        router = router_of(servers[:1], capacity=1)

        async def call(server, owner):
            order.append(owner)
            await asyncio.sleep(1)

        def send_several(owner, number):
            task = RoutedTask(owner, 10)
            return [
                asyncio.ensure_future(router.run(task, lambda s: call(s, owner)))
                for _ in range(number)
            ]

        requests = send_several("x", 10)
        await asyncio.sleep(5.5)
        await asyncio.gather(*requests, *send_several("y", 4))

    virtual_time.run(play())
    assert "".join(order[6:]) in ("yxyxyxyx", "xyxyxyxy")


def test_common_prefix_does_not_overload_one_server(servers):
    async def play():
        router = router_of(servers, capacity=64)
        requests = [send(router, RoutedTask("one", 10, prefix="rules")) for _ in range(40)]
        await asyncio.sleep(0.5)
        running = [one.running for one in router.servers.values()]
        assert abs(running[0] - running[1]) <= SLACK + 1
        await asyncio.gather(*requests)

    virtual_time.run(play())


@pytest.mark.parametrize("error", [BackendError("too long a prompt"), asyncio.CancelledError()])
def test_error_of_one_request_does_not_mark_the_server_down(servers, error):
    async def fail(server):
        raise error

    async def play():
        router = router_of(servers[:1], capacity=1)
        for _ in range(2):
            with pytest.raises(type(error)):
                await router.run(ONE, fail)
        assert router.servers["a"].up and await send(router) == "a"

    virtual_time.run(play())


@pytest.mark.parametrize(("victim", "moment"), [(0, 0.0), (0, 0.5), (1, 1.0), (2, 0.5), (2, 2.0)])
def test_cancelled_request_frees_its_slot(servers, victim, moment):
    async def play():
        router = router_of(servers[:1], capacity=1)
        requests = [send(router) for _ in range(3)]
        asyncio.get_running_loop().call_at(moment, requests[victim].cancel)
        ends = await asyncio.gather(*requests, return_exceptions=True)
        cancelled = sum(isinstance(end, asyncio.CancelledError) for end in ends)
        assert router.owners["one"].done == router.servers["a"].done == 3 - cancelled
        assert await send(router) == "a" and now() <= 4

    virtual_time.run(play())


def test_removed_server_finishes_open_requests_and_close_fails_the_queue(servers):
    async def play():
        router = router_of(servers, capacity=1)
        requests = [send(router) for _ in range(4)]
        await asyncio.sleep(0.5)
        router.remove(servers[0])
        await asyncio.sleep(1.0)
        router.remove(servers[1])
        await asyncio.sleep(1.0)
        router.close()
        ends = await asyncio.gather(*requests, return_exceptions=True)
        assert ends[:3] == ["a", "b", "b"]
        assert "no server takes part any more" in str(ends[3])
        with pytest.raises(BackendError, match="no server takes part"):
            await send(router)

    virtual_time.run(play())


def test_conversation_stays_on_one_server():
    servers = [SlowServer(name) for name in "abcd"]

    async def play():
        router = router_of(servers, capacity=16)
        places = {}
        for _ in range(5):
            requests = {
                number: send(router, RoutedTask("one", 10, prefix=number)) for number in range(12)
            }
            for number, answer in requests.items():
                assert places.setdefault(number, await answer) == await answer
        assert Counter(places.values()) == dict.fromkeys("abcd", 3)  # hash(n) is n

    virtual_time.run(play())


def test_request_fails_after_max_wait(servers):
    async def play():
        router = router_of(servers[:1], capacity=1, max_wait=2.5)
        ends = await asyncio.gather(*(send(router) for _ in range(5)), return_exceptions=True)
        assert ends[:3] == ["a", "a", "a"]
        assert all("max_wait" in str(end) and isinstance(end, BackendError) for end in ends[3:])
        assert now() == 3.0
        assert await send(router) == "a"

    virtual_time.run(play())


def test_requests_leave_a_failed_server_until_it_has_rested(servers):
    async def play():
        router = router_of(servers, capacity=1)
        servers[0].dead = True
        assert await asyncio.gather(*(send(router) for _ in range(3))) == ["b"] * 3
        assert not router.servers["a"].up
        servers[0].dead = False
        await asyncio.sleep(REST)
        assert set(await asyncio.gather(send(router), send(router))) == {"a", "b"}
        assert router.servers["a"].up

    virtual_time.run(play())


def test_request_fails_after_too_many_failed_servers(servers):
    tried = []

    async def play():
        async def fail(server):
            tried.append(server.name)
            raise ServerUnavailable(f"{server.name} died")

        router = router_of(servers)
        with pytest.raises(BackendError, match="may be the cause"):
            await router.run(ONE, fail)

    virtual_time.run(play())
    assert len(tried) == MOST_MOVES + 1


@pytest.mark.parametrize("score", [float("nan"), 1e9])
def test_score_is_limited(score):
    with pytest.raises(ServingError, match="score of one"):
        Router().set_score("one", score)
