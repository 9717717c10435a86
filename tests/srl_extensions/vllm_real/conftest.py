"""One real vLLM server on a CPU for the session, with the embedded model and four adapters."""

import os
import socket
from pathlib import Path

import pytest

from srl_envs import coop_compete_v0
from srl_extensions.vllm.fleet import Fleet
from srl_extensions.vllm.server import ServerSpec

HERE = f"{Path(__file__).parent}/"
PYTHON = Path(__file__).parents[3] / ".venv-vllm/bin/python"
SLOTS = 4
BASE = "base"


def pytest_collection_modifyitems(items):
    for item in items:
        if str(item.path).startswith(HERE):
            item.add_marker(pytest.mark.vllm)
            # PEFT uses a deprecated name of transformers.
            deprecated = "ignore:`is_gradient_checkpointing` is deprecated:FutureWarning"
            item.add_marker(pytest.mark.filterwarnings(deprecated))


@pytest.fixture(scope="session")
def model_folder(embedded_models):
    from srl_agents.llm.tiny import TinySize, folder

    # vLLM's attention on CPUs requires a head_dim of at least 32.
    return folder(
        lambda: coop_compete_v0.parallel_env(variant="pair", max_cycles=3),
        size=TinySize(heads=2, key_value_heads=1),
    )


@pytest.fixture(scope="session")
def adapter_folders(model_folder, tmp_path_factory):
    """Folders of adapters on all linear layers of the base; the first one has B = 0."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    folders = []
    for seed in range(SLOTS):
        torch.manual_seed(seed)
        config = LoraConfig(
            r=8, lora_alpha=16, target_modules="all-linear", init_lora_weights=seed == 0
        )
        adapted = get_peft_model(AutoModelForCausalLM.from_pretrained(model_folder), config)
        folders.append(tmp_path_factory.mktemp(f"adapter{seed}"))
        adapted.save_pretrained(folders[-1])
    return folders


def unused_port():
    """Return a free port."""
    with socket.create_server(("127.0.0.1", 0)) as unused:
        return unused.getsockname()[1]


@pytest.fixture(scope="session")
def server_spec(model_folder, tmp_path_factory):
    """Settings of a server, whose interpreter is VLLM_PYTHON or the one of .venv-vllm."""
    return ServerSpec(
        model=str(model_folder),
        served_name=BASE,
        port=unused_port(),
        log_folder=tmp_path_factory.mktemp("logs"),
        dtype="float32",
        extra_arguments=("--max-model-len", "1024"),
        adapter_slots=SLOTS,
        python=os.environ.get("VLLM_PYTHON", str(PYTHON)),
    )


@pytest.fixture(scope="session")
def fleet(server_spec):
    with Fleet.managed([server_spec]) as fleet:
        yield fleet


@pytest.fixture
def endpoint(fleet):
    [endpoint] = fleet.clients(BASE)
    return endpoint
