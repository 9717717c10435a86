"""Restart of a real server after its engine was killed."""

import os
import signal

from srl_agents.llm.backends import background_loop
from srl_extensions.vllm.routing import RoutedTask
from tests.servers.prompt_logprobs import prompt_logprobs
from tests.srl_extensions.vllm_real.conftest import BASE
from tests.srl_extensions.vllm_real.process_groups import group


def test_killed_engine_restarts_and_no_request_is_lost(fleet, adapter_folders):
    async def load(base, endpoint):
        await endpoint.load_adapter("restart@1", adapter_folders[1])

    [member] = fleet.members
    before = member.restarts
    fleet.on_up(load)
    [endpoint] = fleet.clients(BASE)
    background_loop.run(load(BASE, endpoint))
    [engine] = [
        pid for pid, name in group(member.server.process.pid).items() if "EngineCor" in name
    ]
    os.kill(engine, signal.SIGKILL)
    task = RoutedTask(owner="model")
    logprobs = background_loop.run(
        fleet.routers[BASE].run(task, lambda one: prompt_logprobs(one, "restart@1", [1, 2, 3]))
    )
    assert len(logprobs) == 2 and member.restarts == before + 1
    fleet.check()
