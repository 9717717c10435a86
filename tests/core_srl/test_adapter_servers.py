"""Servers of adapters: every new version is swapped in, under load and after a restart."""

import asyncio

import pytest

from core_srl import (
    MODERN_MODELS,
    LoRAConfig,
    create_distributed_lora_scheduler,
    create_lora_manager,
)
from srl_agents.errors import ServingError
from srl_extensions.vllm import fleet as fleets
from srl_extensions.vllm.fleet import Fleet
from srl_extensions.vllm.placement import Gpu
from srl_train.errors import ConfigError
from tests.core_srl.test_model_servers import free_ports
from tests.core_srl.weights import asked, logprobs_of, other_weights
from tests.servers.vllm_stub import VLLMStub

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated"),
]


@pytest.fixture
def started(monkeypatch, tiny_folder):
    """The specifications of the servers that were started, and the servers of this process that
    took their place."""
    specs, stubs = [], []

    def managed(given):
        for spec in given:
            stub = VLLMStub(spec.model, spec.served_name)
            stub._port = spec.port
            stub.start()
            specs.append(spec)
            stubs.append(stub)
        urls = {spec.served_name: [spec.url] for spec in given}
        return Fleet.attached(urls)

    monkeypatch.setattr(Fleet, "managed", managed)
    monkeypatch.setattr(fleets, "LOOK", 0.05)
    monkeypatch.setattr("core_srl.servers.find_gpus", lambda: [])
    yield specs, stubs
    for stub in stubs:
        stub.stop()


@pytest.fixture
def port():
    """The first of four free ones, of which no other process is given one by chance."""
    return free_ports(4)


@pytest.fixture
def manager(tiny_folder, port):
    configs = {i: LoRAConfig(lora_id=i, rank=4 + i, port=port) for i in range(2)}
    return create_lora_manager(configs, base=tiny_folder, device="cpu")


def test_every_version_of_a_manager_is_served(manager, started, port):
    specs, stubs = started
    scheduler = create_distributed_lora_scheduler(port, 0, manager=manager)
    sets = [manager.weights(1), *(other_weights(manager, 1, seed) for seed in range(3))]
    said = []

    async def session():
        with pytest.raises(ServingError, match="start"):
            scheduler.backend(0)
        await scheduler.start()
        with pytest.raises(ServingError, match="run already"):
            await scheduler.start()
        [spec] = specs
        assert (spec.port, spec.gpus, spec.model) == (port, (), manager.base)
        assert spec.dtype == "float32", "vLLM itself would round"
        assert (spec.adapter_slots, spec.max_rank) == (5, 5)
        backend, done = scheduler.backend(0), asyncio.Event()

        async def ask():
            while not done.is_set():
                said.append(await asked(backend, "lora_0", "lora_1"))

        asking = [asyncio.create_task(ask()) for _ in range(3)]
        for weights in sets[1:]:
            await asyncio.sleep(0.05)
            await asyncio.to_thread(manager.swap, 1, weights)
        done.set()
        await asyncio.gather(*asking)
        said.append(await asked(backend, "lora_0", "lora_1"))
        served = scheduler.get_system_status()["adapters"]
        assert [entry["version"] for entry in served.values()] == [0, 3]
        assert len(stubs[0].adapters) == 2  # Former versions were unloaded.
        await scheduler.stop()
        assert scheduler.get_system_status()["servers"] == {}
        manager.swap(1, sets[0])  # The scheduler no longer follows.

    asyncio.run(session())
    _, [other, last] = said[-1]
    assert (other.model.version, last.model.version) == (0, 3)
    model = adapted(manager, 1)
    for version in {answers[1].model.version for _, answers in said}:
        manager.swap(1, sets[version])
        for prompt, [_, one] in said:
            if one.model.version == version:
                expected = logprobs_of(model, prompt, one.ids)
                assert list(one.logprobs) == pytest.approx(expected.tolist(), abs=1e-3)


def adapted(manager, lora_id):
    """The manager's model with one of its adapters active."""
    model = manager.backend.model
    model.set_adapter(f"lora_{lora_id}")
    return model


def test_servers_share_available_gpus(started, port, tiny_folder, monkeypatch, caplog):
    gpus = [Gpu(index, 80.0, 80.0) for index in range(2)]
    monkeypatch.setattr("core_srl.servers.find_gpus", lambda: gpus)
    monkeypatch.setenv("CORE_SRL_MODELS", f"{MODERN_MODELS['qwen3']}={tiny_folder}")
    scheduler = create_distributed_lora_scheduler(port, 3)

    async def course():
        await scheduler.start()
        await scheduler.stop()

    asyncio.run(course())
    assert [spec.gpus for spec in started[0]] == [(0,), (1,), (0,)]
    assert [spec.port for spec in started[0]] == [port, port + 1, port + 2]
    assert {spec.adapter_slots for spec in started[0]} == {3}
    assert {spec.dtype for spec in started[0]} == {"float32"}, "as the weights were saved"
    assert started[0][0].memory_fraction == 0.45
    assert "num_gpus is 3, 2 are here" in caplog.text


def test_incompatible_adapter_is_refused(manager, port):
    with pytest.raises(ConfigError, match="lora_0: port"):
        create_distributed_lora_scheduler(port - 1, 1, manager=manager)
    with pytest.raises(ValueError, match="num_gpus"):
        create_distributed_lora_scheduler(65535, 4, manager=manager)


def test_error_without_vllm_quotes_the_server_log(manager, port, monkeypatch):
    monkeypatch.setattr("core_srl.servers.find_gpus", lambda: [])
    scheduler = create_distributed_lora_scheduler(port, 0, manager=manager)
    with pytest.raises(
        ServingError, match=r"ended as it started: .*No module named 'vllm.*its log"
    ):
        asyncio.run(scheduler.start())
