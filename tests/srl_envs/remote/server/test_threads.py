"""Threads that clients share."""

import asyncio
import threading

from srl_envs.remote.server.threads import Threads
from srl_envs.remote.server.work import Pieces


def test_clients_take_turns():
    held, done = threading.Event(), []

    async def everything():
        threads = Threads(count=1, most_hung=1, share=1)

        def run(client, *pieces):
            work = Pieces([*pieces, lambda: done.append(client)])
            return asyncio.ensure_future(threads.run(work, 60.0, client))

        running = [run("one", held.wait), *(run("one") for _ in range(3)), run("other")]
        await asyncio.sleep(0)  # all of them are queued
        held.set()
        await asyncio.gather(*running)
        threads.close()

    asyncio.run(everything())
    assert done == ["one", "other", "one", "one", "one"]


def test_stopped_work_begins_no_further_piece():
    work = Pieces([lambda: work.stop.set(), lambda: 1 / 0])
    work()
    assert work.results == [None]
