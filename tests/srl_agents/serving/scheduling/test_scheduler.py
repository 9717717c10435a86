"""The scheduler: every request ends, within its bound, in its share, on a server that is up."""

import asyncio
from collections import Counter

import numpy as np
import pytest

from srl_agents.errors import BackendError, QueueFull, ServingError
from srl_agents.serving.scheduler import Scheduler, Task
from tests.srl_agents.serving.scheduling import virtual_time
from tests.srl_agents.serving.scheduling.slow_servers import ONE, Server, ask, scheduler_of


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
