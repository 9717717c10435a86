"""Event loop of network requests."""

import asyncio

import pytest

from srl_agents.llm.backends import background_loop


def test_run_inside_the_background_loop_is_rejected():
    async def inside():
        return background_loop.run(asyncio.sleep(0))

    with pytest.raises(RuntimeError, match="await the coroutine"):
        background_loop.run(inside())
