"""Schedulers of several models: real processes of a server that answers as vLLM's does."""

import asyncio
import json
import os
import socket
import sys
from pathlib import Path

import pytest

from core_srl import (
    UnifiedScheduler,
    create_competitive_scheduler,
    create_cooperative_scheduler,
    create_unified_scheduler,
    servers,
)
from srl_agents.errors import ServingError
from srl_train.errors import ConfigError

SERVER = Path(__file__).parents[1] / "servers" / "vllm_program.py"


@pytest.fixture(autouse=True)
def without_gpus(monkeypatch):
    monkeypatch.setattr(servers, "find_gpus", lambda: [])


@pytest.fixture
def python(tmp_path):
    """Return an interpreter that always runs the stub server."""
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} {SERVER} "$@"\n')
    script.chmod(0o755)
    return str(script)


@pytest.fixture
def model(tmp_path):
    def make(name):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(bytes(100))
        sizes = dict.fromkeys(
            ("num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads"), 2
        )
        (folder / "config.json").write_text(json.dumps(sizes | {"max_position_embeddings": 64}))
        return str(folder)

    return make


def free_ports(count):
    """The first of so many free ports in a row."""
    for first in range(20_000 + os.getpid() % 10_000, 60_000, count):
        opened = []
        try:
            for port in range(first, first + count):
                opened.append(socket.create_server(("127.0.0.1", port)))
        except OSError:
            continue
        else:
            return first
        finally:
            for one in opened:
                one.close()
    raise AssertionError("no ports")


def listens(port):
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def test_models_are_served_at_their_ports_and_answer(python, model):
    first = free_ports(3)
    shared, own = model("shared"), model("own")

    async def use():
        scheduler = create_unified_scheduler(base_port=first, num_gpus=2, python=python)
        for model_id, name in (("a", shared), ("b", own), ("c", shared)):
            scheduler.register_model(model_id, name)
        await scheduler.start()
        try:
            answers = await scheduler.submit_task("cooperate?", max_new_tokens=8)
            [alone] = (await scheduler.submit_task("compete?", ["b"])).values()
            return answers, alone, scheduler.get_system_statistics(), scheduler
        finally:
            assert all(listens(port) for port in range(first, first + 3))
            await scheduler.stop()

    answers, alone, statistics, scheduler = asyncio.run(use())
    assert not any(listens(port) for port in range(first, first + 3))
    where = {model_id: one["port"] for model_id, one in statistics["models"].items()}
    # Models with the same weights have consecutive ports and share both servers.
    assert where == {"a": first, "c": first + 1, "b": first + 2}
    assert answers["b"].text == f"cooperate? at {first + 2}"
    assert {answers[one].text for one in "ac"} <= {f"cooperate? at {first + k}" for k in (0, 1)}
    assert (alone.text, alone.model) == (f"compete? at {first + 2}", own)
    assert statistics["models"]["b"]["done"] == 2 and statistics["models"]["b"]["gpus"] == ()
    with pytest.raises(ServingError, match=r"the servers do not run: await start\(\)"):
        asyncio.run(scheduler.submit_task("more"))


def test_scores_share_the_capacity_of_competing_models(python, model):
    name = model("shared")
    scheduler = create_competitive_scheduler(free_ports(1), 0, python=python)
    scheduler.register_model("a", name)

    async def use():
        await scheduler.start()
        try:
            scheduler.set_score("a", 1.0)
            assert scheduler.get_system_statistics()["models"]["a"]["score"] == 1.0
            with pytest.raises(ConfigError, match="register models before start"):
                scheduler.register_model("b", name)
            with pytest.raises(ServingError, match="the servers run already"):
                await scheduler.start()
        finally:
            await scheduler.stop()

    asyncio.run(use())
    assert scheduler.sharing == "priority"
    with pytest.raises(ServingError, match="has no scores"):
        create_cooperative_scheduler().set_score("a", 1.0)


def test_unknown_model_or_task_is_refused():
    scheduler = UnifiedScheduler()
    with pytest.raises(ConfigError, match="no model is registered"):
        asyncio.run(scheduler.start())
    with pytest.raises(ConfigError, match=r"model_name of x .*qwen3"):
        scheduler.register_model("x")
    scheduler.register_model("qwen3")
    with pytest.raises(ConfigError, match="model_id"):
        scheduler.register_model("qwen3")
    for chosen, sampling, words in ((["x"], {}, "selected_models"), (None, {"heat": 2}, "heat")):
        with pytest.raises(ConfigError, match=words):
            asyncio.run(scheduler.submit_task("hello", chosen, **sampling))
    with pytest.raises(ValueError, match="sharing"):
        UnifiedScheduler(sharing="even")
