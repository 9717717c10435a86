"""What the scheduler costs and brings: CPU time per request, and turns that find their prefix.

python -m benchmarks.scheduling [--requests 20000] [--seed 0]

Conversations of several turns are held with servers that answer after random numbers of turns of
the event loop, so that nothing here depends on the clock but the cost. A turn finds its prefix
where the conversation's last turn was answered. In "room for all" every conversation could be
under way at once, in "busy" half of them wait.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import numpy as np

from srl_agents.serving.scheduler import Scheduler
from srl_agents.serving.scheduling.requests import Task

SERVERS, TALKS, TURNS, OWNERS = 4, 64, 12, 4
CAPACITIES = {"room for all": TALKS // SERVERS * 2, "busy": TALKS // SERVERS // 2}
LONGEST = 40  # turns of the event loop that an answer takes at most


@dataclass(frozen=True)
class Server:
    """One that only has a name."""

    name: str


Ask = Callable[[int, Callable[[Server], Awaitable[Server]]], Awaitable[Server]]
"""Conversation, call -> the server that answered."""


def scheduler_over(capacity: int) -> Scheduler[Server]:
    """One with all servers."""
    scheduler: Scheduler[Server] = Scheduler()
    for number in range(SERVERS):
        scheduler.add(Server(f"server {number}"), capacity=capacity)
    return scheduler


async def share_of_hits(ask: Ask, rng: np.random.Generator) -> float:
    """Of all turns but each conversation's first."""
    hits = 0

    async def answer(server: Server) -> Server:
        for _ in range(int(rng.integers(1, LONGEST))):
            await asyncio.sleep(0)
        return server

    async def converse(talk: int) -> None:
        nonlocal hits
        before = None
        for _ in range(TURNS):
            server = await ask(talk, answer)
            hits += server == before
            before = server

    await asyncio.gather(*map(converse, range(TALKS)))
    return hits / (TALKS * (TURNS - 1))


def scheduled(capacity: int) -> Ask:
    """By the scheduler."""
    scheduler = scheduler_over(capacity)

    def ask(talk: int, call: Callable[[Server], Awaitable[Server]]) -> Awaitable[Server]:
        task = Task(owner=f"model {talk % OWNERS}", cost=100, prefix=talk)
        return scheduler.run(task, call)

    return ask


def round_robin(capacity: int) -> Ask:
    """To one server after the other, each with as many places."""
    servers = [Server(f"server {number}") for number in range(SERVERS)]
    following = itertools.cycle(servers)
    places = {server: asyncio.Semaphore(capacity) for server in servers}

    async def ask(talk: int, call: Callable[[Server], Awaitable[Server]]) -> Server:
        server = next(following)
        async with places[server]:
            return await call(server)

    return ask


def microseconds(requests: int) -> float:
    """CPU time that the scheduler takes for a request, 64 at once, half of which wait."""

    async def nothing(server: Server) -> None:
        await asyncio.sleep(0)

    async def scheduled_calls(scheduler: Scheduler[Server], talk: int) -> None:
        task = Task(owner=f"model {talk % OWNERS}", prefix=talk)
        for _ in range(requests // TALKS):
            await scheduler.run(task, nothing)

    async def plain_calls(server: Server) -> None:
        for _ in range(requests // TALKS):
            await nothing(server)

    async def timed(*calls: Awaitable[None]) -> float:
        began = time.process_time()
        await asyncio.gather(*calls)
        return time.process_time() - began

    async def both() -> float:
        scheduler = scheduler_over(CAPACITIES["busy"])
        with_it = await timed(*(scheduled_calls(scheduler, talk) for talk in range(TALKS)))
        without = await timed(*(plain_calls(Server("one")) for _ in range(TALKS)))
        return with_it - without

    return 1e6 * asyncio.run(both()) / (requests // TALKS * TALKS)


def hits(seed: int) -> dict[str, dict[str, float]]:
    """Load -> way of routing -> share of turns that found their prefix."""

    async def measured(way: Callable[[int], Ask], capacity: int) -> float:
        return await share_of_hits(way(capacity), np.random.default_rng(seed))

    ways = {"scheduler": scheduled, "round robin": round_robin}
    return {
        load: {name: asyncio.run(measured(way, capacity)) for name, way in ways.items()}
        for load, capacity in CAPACITIES.items()
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    print(f"CPU time per request: {microseconds(arguments.requests):.0f} microseconds")
    print(f"turns that found their prefix ({TALKS} conversations, {SERVERS} servers):")
    for load, ways in hits(arguments.seed).items():
        print(f"  {load}: " + ", ".join(f"{name} {share:.1%}" for name, share in ways.items()))


if __name__ == "__main__":
    main()
