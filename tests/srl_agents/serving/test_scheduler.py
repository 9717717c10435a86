"""The scheduler: every request ends, within its bound, in its share, on a server that is up."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pytest

from srl_agents.errors import BackendError, QueueFull, ServerUnavailable, ServingError
from srl_agents.serving.scheduler import MOST_MOVES, Scheduler, Task
from tests.srl_agents.serving import virtual_time


@dataclass(eq=False)
class Server:
    """Takes a second for ten tokens, for each request by itself; knows whether it is there."""

    name: str
    dead: bool = False
    asked: int = 0
    answered: list = field(default_factory=list)

    async def answer(self, task):
        self.asked += 1
        if self.dead:
            raise ServerUnavailable(f"{self.name} refuses connections")
        await asyncio.sleep(task.cost / 10)
        self.answered.append(task)
        return self.name


def scheduler_of(servers, *, capacity=4, **settings):
    scheduler = Scheduler(**settings)
    for server in servers:
        scheduler.add(server, capacity=capacity)
    return scheduler


def ask(scheduler, task):
    return asyncio.ensure_future(scheduler.run(task, lambda server: server.answer(task)))


def shares_of(tasks):
    tokens = dict.fromkeys(sorted({task.owner for task in tasks}), 0)
    for task in tasks:
        tokens[task.owner] += task.cost
    return {owner: count / sum(tokens.values()) for owner, count in tokens.items()}


MEAN_COSTS = {"model_0": 200, "model_1": 100, "model_2": 60, "model_3": 30}  # tokens
SCORES = {"model_0": 1.0, "model_1": 0.5, "model_2": 0.0, "model_3": -3.0}
ODDS = {owner: np.exp(score) for owner, score in SCORES.items()}
POLICIES = {
    "fair": dict.fromkeys(SCORES, 1 / 4),
    "priority": {owner: 0.2 / 4 + 0.8 * odd / sum(ODDS.values()) for owner, odd in ODDS.items()},
}


def mixed_tasks(rng, policy):
    """1,000 tasks in random order: of each owner so many that all need about the same time."""
    parts = np.array([policy[owner] / cost for owner, cost in MEAN_COSTS.items()])
    owners = rng.permutation(
        np.repeat(list(MEAN_COSTS), np.rint(1000 * parts / sum(parts)).astype(int))
    )
    return [Task(str(owner), int(rng.integers(1, 2 * MEAN_COSTS[owner]))) for owner in owners]


@pytest.mark.parametrize("comes_back", [False, True])
@pytest.mark.parametrize("sharing", ["fair", "priority"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_thousand_tasks_over_four_servers_of_which_one_dies(seed, sharing, comes_back):
    policy = POLICIES[sharing]
    tasks = mixed_tasks(np.random.default_rng(seed), policy)
    servers = [Server(f"server_{number}") for number in range(4)]
    began = []

    async def play():
        scheduler = scheduler_of(servers, sharing=sharing, max_wait=1500)
        loop = asyncio.get_running_loop()
        if sharing == "priority":
            for owner, score in SCORES.items():
                scheduler.set_score(owner, score)

        async def call(server, task):
            began.append((task, loop.time()))
            return await server.answer(task)

        asked = [asyncio.ensure_future(scheduler.run(t, lambda s, t=t: call(s, t))) for t in tasks]
        await asyncio.sleep(100)
        servers[2].dead = True
        scheduler.mark_down(servers[2])
        done_there = len(servers[2].answered)
        await asyncio.sleep(100)
        assert len(servers[2].answered) == done_there
        if comes_back:
            servers[2].dead = False
            scheduler.mark_up(servers[2])
        await asyncio.gather(*asked)
        return scheduler.stats()

    stats = virtual_time.run(play())
    answered = [task for server in servers for task in server.answered]
    assert len(answered) == len(tasks) and Counter(answered) == Counter(tasks)
    assert sum(server.done for server in stats.servers.values()) == len(tasks)
    assert stats.servers["server_2"].moved == 4 == sum(one.moved for one in stats.owners.values())
    for owner, one in stats.owners.items():
        costs = [task.cost for task in tasks if task.owner == owner]
        assert (one.done, one.tokens, one.failed) == (len(costs), sum(costs), 0)
        assert 0 < one.longest_wait <= 1500
    # Shares hold while all owners wait; the first to have begun its last one waits no more.
    last = min(max(when for task, when in began if task.owner == owner) for owner in policy)
    assert last > 300
    got = shares_of([task for task, when in began if when < last])
    assert got == pytest.approx(policy, rel=0.1)
    assert (len(servers[2].answered) > len(servers[0].answered) / 2) == comes_back


ONE = Task("one", 10)  # a second's work


@pytest.fixture
def servers():
    return [Server("a"), Server("b")]


def test_a_full_queue_refuses_its_owners_next_request_only(servers):
    async def play():
        scheduler = scheduler_of(servers[:1], capacity=1, queue_limit=2)
        asked = [ask(scheduler, ONE) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(QueueFull, match=r"one: 2 requests wait, .* \(queue_limit\)"):
            await ask(scheduler, ONE)
        assert await ask(scheduler, Task("other", 10)) == "a"
        await asyncio.gather(*asked)
        stats = scheduler.stats().owners
        assert (stats["one"].done, stats["one"].refused, stats["other"].refused) == (3, 1, 0)

    virtual_time.run(play())


def test_nobody_waits_beyond_the_bound(servers):
    async def play():
        scheduler = scheduler_of(servers[:1], capacity=1, max_wait=2.5)
        asked = [ask(scheduler, ONE) for _ in range(5)]
        ends = await asyncio.gather(*asked, return_exceptions=True)
        assert ends[:3] == ["a", "a", "a"]
        for end in ends[3:]:
            assert isinstance(end, BackendError)
            assert "one waited 2.5 s (max_wait) for a server: 1 of 1 answer" in str(end)
        assert asyncio.get_running_loop().time() == 3.0
        stats = scheduler.stats()
        assert (stats.owners["one"].failed, stats.owners["one"].longest_wait) == (2, 2.5)
        assert stats.owners["one"].waited == 0 + 1 + 2 + 2 * 2.5
        assert await ask(scheduler, ONE) == "a"

    virtual_time.run(play())


def test_waits_before_and_after_a_move_are_one(servers):
    async def play():
        scheduler = scheduler_of(servers[:1], capacity=1, max_wait=2.5)
        asked = [ask(scheduler, ONE), ask(scheduler, ONE)]
        await asyncio.sleep(1.5)  # the second waited for a second, and has half of its work done
        scheduler.mark_down(servers[0])
        assert await asked[0] == "a"
        with pytest.raises(BackendError, match=r"waited 2.5 s .*: 0 of 1 answer") as late:
            await asked[1]
        assert asyncio.get_running_loop().time() == 3.0
        assert "a went down" in str(late.value.__cause__)

    virtual_time.run(play())


def test_what_is_moved_goes_before_its_owners_others(servers):
    async def play():
        scheduler = scheduler_of(servers, capacity=1)
        tasks = [Task("one", 10, prefix=number) for number in range(6)]
        asked = [ask(scheduler, task) for task in tasks]
        await asyncio.sleep(0.5)
        scheduler.mark_down(servers[0])
        await asyncio.gather(*asked)
        assert [task.prefix for task in servers[1].answered] == [1, 0, 2, 3, 4, 5]

    virtual_time.run(play())


def test_a_request_goes_from_an_unavailable_server_to_another(servers):
    async def play():
        servers[0].dead = True
        scheduler = scheduler_of(servers)
        assert [await ask(scheduler, ONE) for _ in range(3)] == ["b"] * 3
        stats = scheduler.stats()
        assert [server.up for server in stats.servers.values()] == [False, True]
        assert (stats.servers["a"].moved, stats.owners["one"].moved, servers[0].asked) == (1, 1, 1)

    virtual_time.run(play())


def test_an_unavailable_server_is_tried_with_one_request_after_doubling_pauses(servers):
    times = []

    async def play():
        server = servers[0]
        server.dead = True
        scheduler = scheduler_of([server])
        loop = asyncio.get_running_loop()

        async def call(server):
            times.append(loop.time())
            return await server.answer(ONE)

        asked = [asyncio.ensure_future(scheduler.run(ONE, call)) for _ in range(4)]
        loop.call_later(40, setattr, server, "dead", False)
        await asyncio.gather(*asked)
        # All four at once, which is one failure; then one after 1, 2, 4, 8, 16 and 30 seconds more.
        assert times == [0, 0, 0, 0, 1, 3, 7, 15, 31, 61, 62, 62, 62]
        assert scheduler.stats().servers["a"].up
        server.dead = True
        asked = ask(scheduler, ONE)
        await asyncio.sleep(0.5)
        server.dead = False
        await asked
        assert loop.time() == 63 + 1 + 1  # the pauses begin anew

    virtual_time.run(play())


def test_a_failure_of_an_earlier_life_says_nothing_about_a_server_started_anew(servers):
    async def play():
        scheduler = scheduler_of(servers)

        async def breaks_late(server):
            await asyncio.sleep(5)
            raise ServerUnavailable("the connection of before")

        asked = asyncio.ensure_future(scheduler.run(ONE, breaks_late))
        await asyncio.sleep(1)
        # It was unavailable to another request, told to be up again and has answered since.
        scheduler.mark_up(servers[0])
        await asyncio.sleep(4.5)
        assert scheduler.stats().servers["a"].up
        asked.cancel()

    virtual_time.run(play())


def test_requests_under_way_end_where_only_one_found_the_server_unavailable(servers):
    async def play():
        scheduler = scheduler_of(servers[:1])
        asked = ask(scheduler, ONE)
        await asyncio.sleep(0.5)
        servers[0].dead = True  # it takes no more, and finishes what it has
        moved = ask(scheduler, ONE)
        assert await asked == "a"
        assert scheduler.stats().servers["a"].up  # for it has answered
        servers[0].dead = False
        assert await moved == "a"

    virtual_time.run(play())


def test_a_request_that_takes_down_every_server_fails_itself():
    killed = []

    async def play():
        scheduler = scheduler_of([Server(str(number)) for number in range(10)])

        async def kill(server):
            killed.append(server.name)
            raise ServerUnavailable(f"{server.name} died")

        with pytest.raises(BackendError, match="6 servers went down under one request"):
            await scheduler.run(ONE, kill)
        assert scheduler.stats().owners["one"].failed == 1

    virtual_time.run(play())
    assert len(set(killed)) == len(killed) == MOST_MOVES + 1


@pytest.mark.parametrize("moment", [0.0, 0.5, 1.0, 1.5, 2.0])
@pytest.mark.parametrize("victim", [0, 1, 2])
def test_who_gives_up_leaves_nothing_behind(servers, victim, moment):
    async def play():
        scheduler = scheduler_of(servers[:1], capacity=1)
        asked = [ask(scheduler, ONE) for _ in range(3)]
        asyncio.get_running_loop().call_at(moment, asked[victim].cancel)
        ends = await asyncio.gather(*asked, return_exceptions=True)
        cancelled = [isinstance(end, asyncio.CancelledError) for end in ends].count(True)
        stats = scheduler.stats()
        assert stats.owners["one"].cancelled == cancelled
        assert stats.owners["one"].done == stats.servers["a"].done == 3 - cancelled
        assert await ask(scheduler, ONE) == "a"  # the place is free again
        assert asyncio.get_running_loop().time() <= 4

    virtual_time.run(play())


@pytest.mark.parametrize("error", [BackendError("too long a prompt"), asyncio.CancelledError()])
def test_a_calls_own_failure_is_its_own(servers, error):
    async def fail(server):
        raise error

    async def play():
        scheduler = scheduler_of(servers[:1], capacity=1)
        for _ in range(2):
            with pytest.raises(type(error)):
                await scheduler.run(ONE, fail)
        assert scheduler.stats().servers["a"].up and servers[0].asked == 0
        assert await ask(scheduler, ONE) == "a"

    virtual_time.run(play())


def test_a_base_has_servers_of_its_own(servers):
    async def play():
        scheduler = Scheduler()
        for server in servers:
            scheduler.add(server, base=f"base_{server.name}", capacity=1)
        for base in "abab":
            assert await ask(scheduler, Task("one", 10, f"base_{base}")) == base
        with pytest.raises(BackendError, match=r"no server of base 'x' .*: 'base_a', 'base_b'"):
            await ask(scheduler, Task("one", 10, "x"))

    virtual_time.run(play())


def test_a_removed_server_finishes_what_it_has_and_the_last_ones_queue_fails(servers):
    async def play():
        scheduler = scheduler_of(servers, capacity=1)
        asked = [ask(scheduler, ONE) for _ in range(4)]
        await asyncio.sleep(0.5)
        scheduler.remove(servers[0])
        await asyncio.sleep(1.0)
        scheduler.remove(servers[1])
        ends = await asyncio.gather(*asked, return_exceptions=True)
        assert ends[:3] == ["a", "b", "b"]
        assert "no server of base '' takes part; bases: none" in str(ends[3])
        with pytest.raises(ServingError, match="server 'a' takes no part"):
            scheduler.mark_up(servers[0])
        scheduler.add(servers[0], capacity=1)
        assert await ask(scheduler, ONE) == "a"

    virtual_time.run(play())


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"sharing": "even"}, "must be 'fair' or 'priority', got 'even'"),
        ({"queue_limit": 0}, "got 0"),
        ({"max_wait": 0}, "and 0"),
        ({"max_wait": float("nan")}, "nan"),
        ({"floor": 0.0}, "nobody starves"),
        ({"temperature": 0.0}, "temperature must be above 0"),
    ],
)
def test_settings_that_are_none_are_refused(settings, words):
    with pytest.raises(ServingError, match=words):
        Scheduler(**settings)


def test_what_cannot_be_is_refused(servers):
    scheduler = scheduler_of(servers)
    with pytest.raises(ServingError, match="capacity of c must be at least 1, got 0"):
        scheduler.add(Server("c"), capacity=0)
    with pytest.raises(ServingError, match="a server 'a' takes part already"):
        scheduler.add(Server("a"), base="other", capacity=1)
    with pytest.raises(ServingError, match="sharing is 'fair', which has no scores"):
        scheduler.set_score("one", 1.0)
    with pytest.raises(ServingError, match="score of one must be a number, got nan"):
        Scheduler(sharing="priority").set_score("one", float("nan"))


@pytest.mark.parametrize("seed", range(5))
def test_in_disorder_every_request_ends_and_is_counted_once(seed):
    rng = np.random.default_rng(seed)
    servers = [Server(f"server_{number}") for number in range(4)]

    async def play():
        scheduler = scheduler_of(servers, sharing="priority", max_wait=60, queue_limit=40)
        loop = asyncio.get_running_loop()

        async def call(server, task):
            if rng.random() < 0.05:
                raise BackendError("refused")
            return await server.answer(task)

        def disturb(server):
            kind = rng.integers(4)
            server.dead = bool(kind < 2)
            if kind == 0:
                scheduler.mark_down(server)
            if kind >= 2:
                scheduler.mark_up(server)

        asked = []

        def send():
            task = Task(
                f"model_{rng.integers(3)}", int(rng.integers(1, 200)), prefix=rng.integers(50)
            )
            scheduler.set_score(task.owner, float(rng.normal()))
            asked.append(asyncio.ensure_future(scheduler.run(task, lambda one: call(one, task))))
            if rng.random() < 0.1:
                loop.call_later(rng.random() * 20, asked[-1].cancel)

        for when in rng.uniform(0, 300, 600):
            loop.call_at(when, send)
        for when in rng.uniform(0, 300, 60):
            loop.call_at(when, disturb, servers[rng.integers(4)])
        await asyncio.sleep(301)
        ends = await asyncio.gather(*asked, return_exceptions=True)
        return ends, scheduler.stats()

    ends, stats = virtual_time.run(play())
    owners = stats.owners.values()
    kinds = Counter(type(end).__name__ for end in ends)
    assert kinds == {
        "str": sum(one.done for one in owners),
        "BackendError": sum(one.failed for one in owners),
        "CancelledError": sum(one.cancelled for one in owners),
        "QueueFull": sum(one.refused for one in owners),
    }
    assert min(kinds.values()) > 0 and sum(one.moved for one in owners) > 0, "nothing happened"
    assert not any(one.queued or one.running for one in owners)
    assert not any(server.running for server in stats.servers.values())
    assert max(one.longest_wait for one in owners) <= 60 + 1e-9


@pytest.mark.parametrize("turn_first", [True, False])
def test_who_gives_up_in_the_moment_of_its_turn_takes_nobodys_place(servers, turn_first):
    async def play():
        scheduler = scheduler_of(servers[:1], capacity=1)
        scheduler.mark_down(servers[0])
        asked = [ask(scheduler, ONE), ask(scheduler, ONE)]
        await asyncio.sleep(1)
        moves = [lambda: scheduler.mark_up(servers[0]), asked[0].cancel]
        for move in moves if turn_first else reversed(moves):
            move()
        ends = await asyncio.gather(*asked, return_exceptions=True)
        assert isinstance(ends[0], asyncio.CancelledError) and ends[1] == "a"
        assert scheduler.stats().owners["one"].cancelled == 1
        assert asyncio.get_running_loop().time() == 2

    virtual_time.run(play())


def test_who_gives_up_as_its_server_goes_down_is_gone(servers):
    async def play():
        scheduler = scheduler_of(servers)
        asked = ask(scheduler, ONE)
        await asyncio.sleep(0.5)
        scheduler.mark_down(servers[0])
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        assert (servers[1].asked, scheduler.stats().owners["one"].cancelled) == (0, 1)

    virtual_time.run(play())
