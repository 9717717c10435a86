"""Servers that take their time, in virtual time, and a scheduler over them."""

import asyncio
from dataclasses import dataclass, field

from srl_agents.errors import ServerUnavailable
from srl_agents.serving.scheduler import Scheduler, Task


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


ONE = Task("one", 10)  # a second's work
