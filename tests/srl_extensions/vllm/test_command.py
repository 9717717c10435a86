"""Command line and environment variables of a server."""

from dataclasses import replace
from pathlib import Path

import pytest

from srl_extensions.vllm.server import PLUGINS, ServerSpec, arguments, environment

CPU = ServerSpec(
    model="/models/base", served_name="base", port=8001, log_folder=Path("logs"), python="python3"
)


def options(spec):
    """Return option -> values of the command line."""
    found = {}
    for word in arguments(spec)[3:]:
        if word.startswith("--"):
            name = word
            found[name] = []
        else:
            found[name].append(word)
    return found


def test_a_server_on_a_cpu():
    assert arguments(CPU)[:3] == ["python3", "-m", "vllm.entrypoints.openai.api_server"]
    found = options(CPU)
    assert found["--host"] == ["127.0.0.1"] and found["--port"] == ["8001"]
    assert found["--enforce-eager"] == [] and found["--block-size"] == ["32"]
    assert found["--kv-cache-memory-bytes"] == [str(2**30)]
    assert found["--logprobs-mode"] == ["processed_logprobs"]
    assert "--no-enable-chunked-prefill" in found
    assert not {"--enable-lora", "--tensor-parallel-size"} & set(found)


def test_a_server_on_two_gpus():
    found = options(replace(CPU, gpus=(2, 3), memory_fraction=0.4))
    assert found["--tensor-parallel-size"] == ["2"]
    assert found["--gpu-memory-utilization"] == ["0.4"]
    assert not {"--enforce-eager", "--block-size", "--kv-cache-memory-bytes"} & set(found)
    variables = environment(replace(CPU, gpus=(2, 3)), {})
    assert variables["CUDA_VISIBLE_DEVICES"] == "2,3"
    visible = {"CUDA_VISIBLE_DEVICES": "4,5,GPU-aa,7"}  # Indices count within these.
    own = environment(replace(CPU, gpus=(2, 3)), visible)
    assert own["CUDA_VISIBLE_DEVICES"] == "GPU-aa,7"
    assert "OMP_NUM_THREADS" not in variables


@pytest.mark.parametrize(("rank", "reserved"), [(1, "1"), (2, "8"), (16, "16"), (17, "32")])
def test_rank_is_rounded_up_to_one_that_vllm_supports(rank, reserved):
    found = options(replace(CPU, adapter_slots=5, max_rank=rank))
    assert found["--enable-lora"] == [] and found["--max-lora-rank"] == [reserved]
    assert found["--max-loras"] == found["--max-cpu-loras"] == ["5"]


def test_environment_drops_variables_of_the_trainer(tmp_path):
    inherited = {
        "PATH": "/bin", "PYTHONPATH": "/own", "PYTHONHOME": "/own", "RANK": "1", "WORLD_SIZE": "2",
        "MASTER_PORT": "29500", "TORCHELASTIC_RUN_ID": "none", "OMP_NUM_THREADS": "3",
    }  # fmt: skip
    variables = environment(CPU, inherited)
    assert variables["PATH"] == "/bin" and variables["OMP_NUM_THREADS"] == "3"
    assert variables["PYTHONPATH"] == str(PLUGINS) and (PLUGINS / "answer_trie.py").is_file()
    assert not {"PYTHONHOME", "RANK", "WORLD_SIZE", "MASTER_PORT"} & set(variables)
    assert "TORCHELASTIC_RUN_ID" not in variables
    assert environment(CPU, {})["OMP_NUM_THREADS"] == "1"
    assert "HF_HUB_OFFLINE" not in variables
    newer = {"VLLM_USE_V2_MODEL_RUNNER": "1"}  # That runner refuses the logits processor.
    assert environment(CPU, newer)["VLLM_USE_V2_MODEL_RUNNER"] == "0"
    assert environment(replace(CPU, model=str(tmp_path)), {})["HF_HUB_OFFLINE"] == "1"
