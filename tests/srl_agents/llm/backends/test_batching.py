"""Which requests come into one batch, and in which order."""

import asyncio

from srl_agents.errors import BackendError
from srl_agents.event_loop import Batcher, run, together
from srl_agents.llm.backends.token_backend import Completion, Request
from srl_agents.llm.sampling import Sampling


class Recorder:
    """Backend that answers a request with its context."""

    def __init__(self, fails=False):
        self.batches, self.fails = [], fails
        self.batcher = Batcher(self.sample)

    def sample(self, requests):
        self.batches.append([request.conversation for request in requests])
        if self.fails:
            raise BackendError("out of memory")
        return [Completion(request.context, (0.0,), True, "m@0") for request in requests]

    async def ask(self, conversation, turns=0, rounds=1):
        for _ in range(rounds):
            for _ in range(turns):
                await asyncio.sleep(0)
            request = Request((conversation,), Sampling(), 0, conversation=conversation)
            assert (await self.batcher.submit(request)).ids == (conversation,)


def test_a_batch_contains_all_waiting_requests_by_conversation():
    recorder = Recorder()

    async def all_of_them():
        await together(*(recorder.ask(n, turns=t, rounds=3) for n, t in ((4, 0), (1, 5), (2, 2))))

    run(all_of_them())
    assert recorder.batches == [[1, 2, 4]] * 3


def test_a_failing_batch_fails_all_its_requests():
    recorder = Recorder(fails=True)

    async def all_of_them():
        asked = (recorder.ask(n) for n in range(3))
        return await asyncio.gather(*asked, return_exceptions=True)

    assert [str(error) for error in run(all_of_them())] == ["out of memory"] * 3
    assert recorder.batches == [[0, 1, 2]]


def test_cancelled_requests_are_not_sampled():
    recorder = Recorder()

    async def all_of_them():
        gone = asyncio.ensure_future(recorder.ask(0))
        stays = asyncio.ensure_future(recorder.ask(1))
        await asyncio.sleep(0)
        gone.cancel()
        await stays

    run(all_of_them())
    assert recorder.batches == [[1]]


def test_each_event_loop_has_its_own_batches():
    """A judge sends requests inside env.step, while the outer event loop is blocked."""
    recorder = Recorder()

    async def outer():
        waiting = asyncio.ensure_future(recorder.ask(1))
        await asyncio.sleep(0)
        run(recorder.ask(2))
        await waiting

    run(outer())
    assert recorder.batches == [[2], [1]]


def test_requests_without_an_order_are_sampled_as_submitted():
    batcher = Batcher(lambda batch: [batch] * 3, order=None)

    async def three():
        return await together(*map(batcher.submit, (3, 1, 2)))

    assert run(three()) == [[3, 1, 2]] * 3
