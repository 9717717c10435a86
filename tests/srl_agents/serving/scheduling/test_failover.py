"""Failover: requests of servers that go down move, and who gives up leaves nothing behind."""

import asyncio

import pytest

from srl_agents.errors import BackendError, ServerUnavailable, ServingError
from srl_agents.serving.scheduler import MOST_MOVES, Task
from tests.srl_agents.serving.scheduling import virtual_time
from tests.srl_agents.serving.scheduling.slow_servers import ONE, Server, ask, scheduler_of


def test_waits_before_between_and_after_moves_are_one(servers):
    async def play():
        scheduler = scheduler_of(servers[:1], capacity=1, max_wait=2.5)
        asked = [ask(scheduler, ONE), ask(scheduler, ONE)]
        for down, up in ((1.5, 2.25), (2.5, None)):  # waits of 1, .75 and, after these, .75 more
            asyncio.get_running_loop().call_at(down, scheduler.mark_down, servers[0])
            if up:
                asyncio.get_running_loop().call_at(up, scheduler.mark_up, servers[0])
        assert await asked[0] == "a"
        with pytest.raises(BackendError, match=r"waited 2.5 s .*: 0 of 1 answer") as late:
            await asked[1]
        assert asyncio.get_running_loop().time() == 3.25
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


def test_what_a_removed_server_had_cached_holds_nobody_up(servers):
    async def play():
        scheduler = scheduler_of(servers, capacity=1)
        await asyncio.gather(*(ask(scheduler, Task("one", 10, prefix=talk)) for talk in "ab"))
        asked = [ask(scheduler, Task("one", 10, prefix=talk)) for talk in "bab"]
        await asyncio.sleep(0.5)  # a talk of each is under way, and "b" waits
        asked.insert(2, ask(scheduler, Task("one", 10, prefix="a")))
        asked.append(ask(scheduler, Task("one", 10, prefix="b")))
        scheduler.remove(servers[0])
        await asyncio.gather(*asked)
        assert [task.prefix for task in servers[1].answered] == ["b", "b", "b", "a", "b"]

    virtual_time.run(play())


def test_what_was_under_way_on_the_last_server_has_nowhere_to_go(servers):
    async def die(server):
        await asyncio.sleep(1)
        raise ServerUnavailable("it ended before it had answered")

    async def play():
        scheduler = scheduler_of(servers[:1])
        asked = asyncio.ensure_future(scheduler.run(ONE, die))
        await asyncio.sleep(0.5)
        scheduler.remove(servers[0])
        with pytest.raises(BackendError, match="no server of base ''"):
            await asked
        assert asyncio.get_running_loop().time() == 1

    virtual_time.run(play())
