"""Event loops in background threads."""

import asyncio

import pytest

from srl_agents.event_loop import LoopThread, run


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, asyncio.CancelledError])
def test_a_loop_survives_system_exit(error):
    async def ends():
        raise error

    thread = LoopThread("tested")
    with pytest.raises(BaseException) as raised:
        thread.submit(ends()).result(10)
    assert raised.type.__name__ == error.__name__  # of asyncio or of concurrent.futures
    assert thread.submit(asyncio.sleep(0, "on")).result(10) == "on"
    thread.close()


def test_an_error_has_no_context_of_the_event_loop():
    async def fails():
        raise ValueError

    with pytest.raises(ValueError) as raised:
        run(fails())
    assert raised.value.__context__ is None
