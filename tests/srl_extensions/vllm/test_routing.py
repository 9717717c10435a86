"""Router: shares, limits, prefixes, failures and cancellations, in virtual time."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pytest

from srl_agents.errors import BackendError, ServerUnavailable, ServingError
from srl_extensions.vllm.routing import MOST_MOVES, SLACK, Router, Task
from tests.srl_extensions.vllm import virtual_time

ONE = Task("one", 10)  # one second of work


@dataclass(eq=False)
class SlowServer:
    """Server that takes a second for ten tokens of each request."""

    name: str
    dead: bool = False
    asked: int = 0
    answered: list = field(default_factory=list)

    async def answer(self, task):
        self.asked += 1
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


def ask(router, task=ONE):
    return asyncio.ensure_future(router.run(task, lambda server: server.answer(task)))


def now():
    return asyncio.get_running_loop().time()


MEAN_COSTS = {"model_0": 200, "model_1": 100, "model_2": 60, "model_3": 30}  # tokens
SCORES = {"model_0": 1.0, "model_1": 0.5, "model_2": 0.0, "model_3": -3.0}
ODDS = {owner: np.exp(score) for owner, score in SCORES.items()}
SHARES = {
    "fair": dict.fromkeys(SCORES, 1 / 4),
    "priority": {owner: 0.2 / 4 + 0.8 * odd / sum(ODDS.values()) for owner, odd in ODDS.items()},
}


@pytest.mark.parametrize("sharing", ["fair", "priority"])
def test_owners_receive_their_shares_while_a_server_fails_and_returns(sharing):
    shares, rng = SHARES[sharing], np.random.default_rng(0)
    parts = np.array([shares[owner] / cost for owner, cost in MEAN_COSTS.items()])
    counts = np.rint(1000 * parts / sum(parts)).astype(int)
    owners = rng.permutation(np.repeat(list(MEAN_COSTS), counts))
    tasks = [Task(str(owner), int(rng.integers(1, 2 * MEAN_COSTS[owner]))) for owner in owners]
    servers = [SlowServer(f"server_{number}") for number in range(4)]
    began = []

    async def play():
        router = router_of(servers, sharing=sharing, max_wait=3000)
        if sharing == "priority":
            for owner, score in SCORES.items():
                router.set_score(owner, score)

        async def call(server, task):
            began.append((task, now()))
            return await server.answer(task)

        asked = [asyncio.ensure_future(router.run(t, lambda s, t=t: call(s, t))) for t in tasks]
        await asyncio.sleep(100)
        servers[2].dead = True
        router.mark_down(servers[2])
        await asyncio.sleep(100)
        servers[2].dead = False
        router.mark_up(servers[2])
        await asyncio.gather(*asked)
        return router

    stats = virtual_time.run(play())
    answered = [task for server in servers for task in server.answered]
    assert Counter(answered) == Counter(tasks)
    assert sum(server.done for server in stats.servers.values()) == len(tasks)
    assert stats.servers["server_2"].moved == 4 == sum(one.moved for one in stats.owners.values())
    for owner, one in stats.owners.items():
        costs = [task.cost for task in tasks if task.owner == owner]
        assert (one.done, one.tokens, one.failed) == (len(costs), sum(costs), 0)
    # Shares hold while all owners wait, so until the first of them begins its last request.
    last = min(max(when for task, when in began if task.owner == owner) for owner in shares)
    tokens = Counter()
    for task, when in began:
        tokens[task.owner] += task.cost * (when < last)
    got = {owner: tokens[owner] / tokens.total() for owner in shares}
    assert last > 300 and got == pytest.approx(shares, rel=0.1)


def test_an_owner_that_was_idle_gains_no_credit(servers):
    order = []

    async def play():
        router = router_of(servers[:1], capacity=1)

        async def call(server, owner):
            order.append(owner)
            await asyncio.sleep(1)

        def send(owner, number):
            task = Task(owner, 10)
            return [
                asyncio.ensure_future(router.run(task, lambda s: call(s, owner)))
                for _ in range(number)
            ]

        asked = send("x", 10)
        await asyncio.sleep(5.5)
        await asyncio.gather(*asked, *send("y", 4))

    virtual_time.run(play())
    assert "".join(order[6:]) in ("yxyxyxyx", "xyxyxyxy")


def test_the_least_loaded_server_is_next_and_a_conversation_keeps_its_server():
    servers = [SlowServer(name) for name in "abcd"]

    async def play():
        router = router_of(servers, capacity=16)
        places = {}
        for _ in range(5):
            asked = {talk: ask(router, Task("one", 10, prefix=talk)) for talk in range(12)}
            for talk, answer in asked.items():
                assert places.setdefault(talk, await answer) == await answer
        assert Counter(places.values()) == dict.fromkeys("abcd", 3)
        stats = router.servers.values()
        assert sum(one.prefix_hits for one in stats) == 4 * 12

    virtual_time.run(play())


def test_a_common_prefix_does_not_crowd_one_server(servers):
    async def play():
        router = router_of(servers, capacity=64)
        asked = [ask(router, Task("one", 10, prefix="rules of the game")) for _ in range(40)]
        await asyncio.sleep(0.5)
        running = [one.running for one in router.servers.values()]
        assert abs(running[0] - running[1]) <= SLACK + 1
        await asyncio.gather(*asked)

    virtual_time.run(play())


def test_a_prefix_moves_with_a_request_that_another_server_answered(servers):
    async def play():
        router, task = router_of(servers, capacity=1), Task("one", 10, prefix="talk")
        assert await asyncio.gather(ask(router, task), ask(router, task)) == ["a", "b"]
        assert await ask(router, task) == "b"
        assert router.servers["b"].prefix_hits == 1

    virtual_time.run(play())


def test_requests_wait_at_most_for_the_limit(servers):
    async def play():
        router = router_of(servers[:1], capacity=1, max_wait=2.5)
        asked = [ask(router) for _ in range(5)]
        ends = await asyncio.gather(*asked, return_exceptions=True)
        assert ends[:3] == ["a", "a", "a"]
        for end in ends[3:]:
            assert isinstance(end, BackendError)
            assert "one waited 2.5 s (max_wait) for a server: 1 of 1 answer" in str(end)
        assert now() == 3.0
        stats = router.owners["one"]
        assert (stats.failed, stats.longest_wait) == (2, 2.0)
        assert await ask(router) == "a"

    virtual_time.run(play())


def test_a_request_moves_from_a_failed_server_before_its_owners_others(servers):
    async def play():
        router = router_of(servers, capacity=1)
        asked = [ask(router, Task("one", 10, prefix=number)) for number in range(6)]
        await asyncio.sleep(0.5)
        servers[0].dead = True
        router.mark_down(servers[0])
        assert await asyncio.gather(*asked) == ["b"] * 6
        # Request 2 was sent at the same moment as request 1 ended, before request 0 failed.
        assert [task.prefix for task in servers[1].answered] == [1, 0, 2, 3, 4, 5]

    virtual_time.run(play())


def test_a_failed_server_is_tried_with_one_request_after_doubling_pauses(servers):
    times = []

    async def play():
        server = servers[0]
        server.dead = True
        router = router_of([server])

        async def call(server):
            times.append(now())
            await asyncio.sleep(0)  # until all four have begun
            return await server.answer(ONE)

        asked = [asyncio.ensure_future(router.run(ONE, call)) for _ in range(4)]
        asyncio.get_running_loop().call_later(40, setattr, server, "dead", False)
        await asyncio.gather(*asked)
        # All four at once are one failure; then one after 1, 2, 4, 8, 16 and 30 seconds more.
        assert times == [0, 0, 0, 0, 1, 3, 7, 15, 31, 61, 62, 62, 62]
        assert router.servers["a"].up

    virtual_time.run(play())


def test_a_request_under_which_every_server_fails_is_given_up():
    tried = []

    async def play():
        router = router_of([SlowServer(str(number)) for number in range(10)])

        async def fail(server):
            tried.append(server.name)
            raise ServerUnavailable(f"{server.name} died")

        with pytest.raises(BackendError, match="6 servers failed under one request"):
            await router.run(ONE, fail)
        assert router.owners["one"].failed == 1

    virtual_time.run(play())
    assert len(set(tried)) == len(tried) == MOST_MOVES + 1


@pytest.mark.parametrize("error", [BackendError("too long a prompt"), asyncio.CancelledError()])
def test_other_errors_of_a_request_do_not_concern_its_server(servers, error):
    async def fail(server):
        raise error

    async def play():
        router = router_of(servers[:1], capacity=1)
        for _ in range(2):
            with pytest.raises(type(error)):
                await router.run(ONE, fail)
        assert router.servers["a"].up and await ask(router) == "a"

    virtual_time.run(play())


@pytest.mark.parametrize("moment", [0.0, 0.5, 1.0, 1.5, 2.0])
@pytest.mark.parametrize("victim", [0, 1, 2])
def test_a_cancelled_request_frees_its_place(servers, victim, moment):
    async def play():
        router = router_of(servers[:1], capacity=1)
        asked = [ask(router) for _ in range(3)]
        asyncio.get_running_loop().call_at(moment, asked[victim].cancel)
        ends = await asyncio.gather(*asked, return_exceptions=True)
        cancelled = sum(isinstance(end, asyncio.CancelledError) for end in ends)
        assert router.owners["one"].failed == cancelled
        assert router.owners["one"].done == router.servers["a"].done == 3 - cancelled
        assert await ask(router) == "a" and now() <= 4

    virtual_time.run(play())


@pytest.mark.parametrize("sent_first", [True, False])
def test_a_request_cancelled_as_it_is_sent_frees_its_place(servers, sent_first):
    async def play():
        router = router_of(servers[:1], capacity=1)
        router.mark_down(servers[0])
        asked = [ask(router), ask(router)]
        await asyncio.sleep(1)
        moves = [lambda: router.mark_up(servers[0]), asked[0].cancel]
        for move in moves if sent_first else reversed(moves):
            move()
        ends = await asyncio.gather(*asked, return_exceptions=True)
        assert isinstance(ends[0], asyncio.CancelledError) and ends[1] == "a"
        assert router.owners["one"].failed == 1 and now() == 2

    virtual_time.run(play())


def test_a_removed_server_finishes_its_requests_and_the_last_ones_queue_fails(servers):
    async def play():
        router = router_of(servers, capacity=1)
        asked = [ask(router) for _ in range(4)]
        await asyncio.sleep(0.5)
        router.remove(servers[0])
        await asyncio.sleep(1.0)
        router.remove(servers[1])
        ends = await asyncio.gather(*asked, return_exceptions=True)
        assert ends[:3] == ["a", "b", "b"]
        assert "no server takes part any more" in str(ends[3])
        with pytest.raises(BackendError, match="no server takes part"):
            await ask(router)
        router.add(servers[0], capacity=1)
        assert await ask(router) == "a"

    virtual_time.run(play())


def test_invalid_settings_are_refused(servers):
    for settings, words in (
        ({"sharing": "even"}, "must be 'fair' or 'priority', got 'even'"),
        ({"max_wait": 0}, "max_wait must be above 0 seconds, got 0"),
        ({"max_wait": float("nan")}, "got nan"),
    ):
        with pytest.raises(ServingError, match=words):
            Router(**settings)

    async def play():
        router = router_of(servers)
        with pytest.raises(ServingError, match="capacity of c must be at least 1, got 0"):
            router.add(SlowServer("c"), capacity=0)
        with pytest.raises(ServingError, match="server name 'a' is used twice"):
            router.add(SlowServer("a"), capacity=1)
        with pytest.raises(ServingError, match="sharing is 'fair', which has no scores"):
            router.set_score("one", 1.0)

    virtual_time.run(play())
    with pytest.raises(ServingError, match="score of one must be a finite number, got nan"):
        Router(sharing="priority").set_score("one", float("nan"))


@pytest.mark.parametrize("seed", range(3))
def test_every_request_ends_and_is_counted_once(seed):
    rng = np.random.default_rng(seed)
    servers = [SlowServer(f"server_{number}") for number in range(4)]

    async def play():
        router = router_of(servers, sharing="priority", max_wait=60)
        loop = asyncio.get_running_loop()

        async def call(server, task):
            if rng.random() < 0.05:
                raise BackendError("refused")
            return await server.answer(task)

        def disturb(server):
            kind = rng.integers(4)
            server.dead = bool(kind < 2)
            if kind == 0:
                router.mark_down(server)
            if kind >= 2:
                router.mark_up(server)

        asked = []

        def send():
            task = Task(
                f"model_{rng.integers(3)}", int(rng.integers(1, 200)), prefix=rng.integers(50)
            )
            router.set_score(task.owner, float(rng.normal()))
            asked.append(asyncio.ensure_future(router.run(task, lambda one: call(one, task))))
            if rng.random() < 0.1:
                loop.call_later(rng.random() * 20, asked[-1].cancel)

        for when in rng.uniform(0, 300, 600):
            loop.call_at(when, send)
        for when in rng.uniform(0, 300, 60):
            loop.call_at(when, disturb, servers[rng.integers(4)])
        await asyncio.sleep(301)
        return await asyncio.gather(*asked, return_exceptions=True), router

    ends, stats = virtual_time.run(play())
    owners = stats.owners.values()
    kinds = Counter(type(end).__name__ for end in ends)
    assert kinds.keys() == {"str", "BackendError", "CancelledError"}
    assert kinds["str"] == sum(one.done for one in owners)
    assert kinds.total() - kinds["str"] == sum(one.failed for one in owners)
    assert sum(one.moved for one in owners) > 0
    assert not any(one.queued or one.running for one in owners)
    assert not any(server.running for server in stats.servers.values())
    assert max(one.longest_wait for one in owners) <= 60 + 1e-9
