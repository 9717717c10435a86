"""The scheduler: every request ends, within its bound, in its share, on a server that is up."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pytest

from srl_agents.errors import ServerUnavailable
from srl_agents.serving.scheduler import Scheduler, Task
from tests.srl_agents.serving import virtual_time


@dataclass(eq=False)
class Server:
    """Takes a second for ten tokens, for each request by itself; knows whether it is there."""

    name: str
    dead: bool = False
    answered: list = field(default_factory=list)

    async def answer(self, task):
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
