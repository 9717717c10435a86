"""Evaluation of a model behind a server in this process, by this library and by verifiers."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from typing import Any

from benchmarks.peer_sides import games
from srl_agents.llm.backends.openai import OpenAIModel
from srl_agents.llm.chat_policy import ChatPolicy
from srl_agents.rollout import play_many_async
from srl_agents.scripted.registry import classic_policy
from tests.servers.chat_server import chat_server


async def ours(url: str, episodes: int) -> list[float]:
    """Play the episodes and return the model's returns."""
    env = games.solo()
    model = ChatPolicy(OpenAIModel("m", base_url=url, api_key="-"), env.unwrapped.text_view)
    policies = {"agent_0": model, "agent_1": classic_policy("tit_for_tat", env)}
    played = await play_many_async(games.solo, policies, range(episodes))
    return [episode.returns()["agent_0"] for episode in played]


async def verifiers(url: str, episodes: int) -> list[float]:
    """Play the episodes in verifiers' runner and return the model's returns."""
    import verifiers.v1 as vf
    from verifiers.v1.utils.loaders import resolve_env_config

    options = {"max_cycles": games.solo().unwrapped.max_cycles}
    taskset = {"id": "srl-games", "options": options, "games": episodes}
    env = vf.load_environment(resolve_env_config({"taskset": taskset}))
    client = vf.EvalClientConfig(base_url=url, api_key_var="NO_KEY")
    context = vf.ModelContext(client=client, model="m", sampling=vf.SamplingConfig())
    async with env.serving():
        slots = [slot for task in env.taskset for slot in env.slots(task)]
        played = await asyncio.gather(*(env.run_slot(slot, context) for slot in slots))
    assert all(episode.ok for episode in played)
    return [episode.traces[0].rewards["episode_return"].score for episode in played]


def measure(given: Mapping[str, Any]) -> None:
    """Evaluate with the `runner` and print the CPU time per request, without a first episode."""
    runner, episodes = globals()[given["runner"]], given["episodes"]
    with chat_server() as server:
        url = f"{server.url}/v1"
        asyncio.run(runner(url, 1))
        began, before = os.times(), len(server.bodies)
        returns = asyncio.run(runner(url, episodes))
        seconds = sum(os.times()[:4]) - sum(began[:4])  # with ended processes, without wall time
        requests = len(server.bodies) - before
    print(json.dumps({"ms": 1e3 * seconds / requests, "returns": returns}))


if __name__ == "__main__":
    measure(json.loads(sys.argv[1]))
