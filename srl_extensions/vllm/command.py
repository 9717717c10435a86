"""Command line and environment variables of a vLLM server."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from srl_agents.errors import ServingError
from srl_extensions.vllm import launcher

MODULE = "vllm.entrypoints.openai.api_server"
HOST = "127.0.0.1"
"""Address of all servers: vLLM's endpoints for weights require no key."""
PLUGINS = Path(__file__).parent / "plugins"
LORA_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""Ranks that vLLM reserves memory for."""
CPU_CACHE_GIB = 1
"""Key-value cache of a server on a CPU. vLLM's default is half of the machine's memory."""
NOT_INHERITED = (
    "PYTHONPATH", "PYTHONHOME", "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE",
    "GROUP_RANK", "ROLE_RANK", "ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
)  # fmt: skip
"""Variables of the trainer's interpreter and of torchrun, which would mislead the server."""


@dataclass(frozen=True)
class ServerSpec:
    """Settings of one vLLM server of a base model and its adapters."""

    model: str
    """Folder, or name on the hub."""
    served_name: str
    """Name of the base in requests."""
    port: int
    log_folder: Path
    """Folder of the log; `served_name` and the port name the file."""
    gpus: tuple[int, ...] = ()
    """GPUs by their index in this process; several share the layers; none selects the CPU."""
    dtype: str = "auto"
    adapter_slots: int = 0
    """Adapters loaded at the same time; 0 serves the base alone."""
    max_rank: int = 16
    memory_fraction: float | None = None
    """Share of the memory of each GPU; None selects vLLM's default. Unused on the CPU."""
    python: str = sys.executable
    """Interpreter of the environment that vLLM is installed in."""
    extra_arguments: tuple[str, ...] = ()
    """Arguments at the end of the command line, which override all others."""

    @property
    def url(self) -> str:
        """Address of the server, such as http://127.0.0.1:8000."""
        return f"http://{HOST}:{self.port}"

    @property
    def name(self) -> str:
        """Name of the server in messages, "SERVED_NAME at URL"."""
        return f"{self.served_name} at {self.url}"


def program(python: str) -> str:
    """Return the absolute path of an executable, given by path or name; ServingError if missing."""
    found = shutil.which(python)
    if found is None:
        raise ServingError(
            f"there is no program {python!r}; allowed: the Python of an environment with vLLM"
        )
    return os.path.abspath(found)  # The link of a virtual environment must not be resolved.


def arguments(spec: ServerSpec) -> list[str]:
    """Return the command line of a server, the interpreter first."""
    words: list[str | int | float] = [
        spec.python, "-m", MODULE,
        "--model", spec.model,
        "--served-model-name", spec.served_name,
        "--host", HOST,
        "--port", spec.port,
        "--dtype", spec.dtype,
        # Return log-probabilities of the sampled distribution: after masks, temperature and top_p.
        "--logprobs-mode", "processed_logprobs",
        # The model's own sampling settings would apply to requests that name none.
        "--generation-config", "vllm",
        # A request with a seed ends the engine if its prompt is read in several pieces.
        "--no-enable-chunked-prefill",
        "--logits-processors", "answer_trie:AnswerTrie",
        "--worker-extension-cls", "weight_update.WeightUpdate",
        "--shutdown-timeout", launcher.GRACE,
        "--disable-uvicorn-access-log",
    ]  # fmt: skip
    if spec.adapter_slots:
        # vLLM refuses to start with a higher rank.
        rank = next((rank for rank in LORA_RANKS if spec.max_rank <= rank), spec.max_rank)
        words += ["--enable-lora", "--max-loras", spec.adapter_slots]
        words += ["--max-cpu-loras", spec.adapter_slots, "--max-lora-rank", rank]
    if spec.gpus:
        words += ["--tensor-parallel-size", len(spec.gpus)]
        if spec.memory_fraction is not None:
            words += ["--gpu-memory-utilization", spec.memory_fraction]
    else:
        # Compiling takes minutes on a CPU; other block sizes returned stale prefixes.
        words += ["--enforce-eager", "--block-size", 32]
        words += ["--kv-cache-memory-bytes", CPU_CACHE_GIB * 2**30]
    return [*map(str, words), *spec.extra_arguments]


def environment(spec: ServerSpec, inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables of a server: `inherited` ones and settings of vLLM.

    Variables of the trainer's Python and of torchrun are removed. `spec.gpus` are indices into
    the GPUs of an inherited CUDA_VISIBLE_DEVICES; IndexError if it has fewer.
    """
    kept = {
        name: value
        for name, value in inherited.items()
        if name not in NOT_INHERITED and not name.startswith("TORCHELASTIC_")
    }
    added = {
        "PYTHONPATH": str(PLUGINS),
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True",
        # The newer model runner, vLLM's choice on GPUs, refuses logits processors of this kind.
        "VLLM_USE_V2_MODEL_RUNNER": "0",
        "VLLM_SERVER_DEV_MODE": "1",  # Endpoints that pause, load weights and resume.
        # By default, vLLM closes idle connections after 5 seconds; rounds take longer.
        "VLLM_HTTP_TIMEOUT_KEEP_ALIVE": "3600",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
    }
    if Path(spec.model).is_dir():
        added["HF_HUB_OFFLINE"] = "1"
    if spec.gpus:
        visible = [name for name in inherited.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
        added["CUDA_VISIBLE_DEVICES"] = ",".join(
            visible[gpu] if visible else str(gpu) for gpu in spec.gpus
        )
    else:
        added["VLLM_CPU_OMP_THREADS_BIND"] = "nobind"
        # Compiling small functions at the first request needs a compiler, which may be missing.
        added["TORCH_COMPILE_DISABLE"] = "1"
        # A second thread is twenty times slower while the trainer computes as well.
        added["OMP_NUM_THREADS"] = inherited.get("OMP_NUM_THREADS", "1")
    return kept | added
