"""A real server whose engine is killed comes back with its adapters, and no request is lost."""

import os
import signal

from srl_agents.llm.backends import background_loop
from srl_agents.serving.scheduler import Task
from tests.servers.prompt_logprobs import prompt_logprobs
from tests.serving_vllm.conftest import BASE
from tests.serving_vllm.process_groups import group


def test_an_engine_that_was_killed_comes_back_and_no_request_is_lost(fleet, adapter_folders):
    async def load(base, endpoint):
        await endpoint.load_adapter("restart@1", adapter_folders[1])

    [server] = fleet._servers
    before = fleet._supervisor.restarts[server]
    fleet.on_up(load)
    [endpoint] = fleet.endpoints(BASE)
    background_loop.run(load(BASE, endpoint))
    [engine] = [pid for pid, name in group(server._process.pid).items() if "EngineCor" in name]
    os.kill(engine, signal.SIGKILL)
    task = Task(owner="model", base=BASE)
    said = background_loop.run(
        fleet.scheduler.run(task, lambda one: prompt_logprobs(one, "restart@1", [1, 2, 3]))
    )
    assert len(said) == 2 and fleet._supervisor.restarts[server] == before + 1
    fleet.check()
