"""Command line and environment variables of a vLLM server, from its specification."""

from __future__ import annotations

import os
import secrets
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from srl_agents.errors import ServingError
from srl_agents.serving.plugins.gate import GUEST_KEY, OWNER_KEY
from srl_envs.validation import is_loopback

PLUGINS = Path(__file__).parent / "plugins"
LORA_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""The ranks that vLLM reserves memory for."""
CPU_CACHE_GIB = 1.0
"""Of keys and values, where a server on a CPU is not told; vLLM's own choice is half the memory."""
DRAIN_SECONDS = 3600
"""vLLM's own bound on the answers it still finishes; who stops a server sets the real one."""
NOT_INHERITED = (
    "PYTHONPATH", "PYTHONHOME", "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE",
    "GROUP_RANK", "ROLE_RANK", "ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
)  # fmt: skip
"""Variables of the trainer's interpreter and of torchrun, which would mislead the server's."""


@dataclass(frozen=True)
class Keys:
    """What requests have to hold where a server has a gate (plugins/gate.py)."""

    owner: str
    """Opens everything."""
    guest: str
    """Samples, once the owner has opened the gate."""

    @classmethod
    def drawn(cls) -> Keys:
        """Keys that nobody can guess."""
        return cls(secrets.token_urlsafe(32), secrets.token_urlsafe(32))


@dataclass(frozen=True)
class ServerSpec:
    """One server of one base model and its adapters: plain data."""

    model: str
    """Folder, or name on the hub."""
    served_name: str
    """What requests call the base."""
    port: int
    log_folder: Path
    """`served_name`, port and ".log" name the file in it."""
    host: str = "127.0.0.1"
    """An address of this machine only, but with `keys`: by themselves the endpoints that take
    weights ask for none."""
    keys: Keys | None = field(default=None, repr=False)
    """A gate for them stands before all endpoints; None: there is none."""
    gpus: tuple[int, ...] = ()
    """Indices as nvidia-smi counts; several share the model's layers; none is the CPU."""
    dtype: str = "auto"
    max_model_len: int | None = None
    """Tokens of prompt and answer; None takes the model's own."""
    adapter_slots: int = 0
    """Adapters loaded at once; 0 serves the base alone."""
    max_rank: int = 16
    memory_gib: float | None = None
    """For keys and values; None is what `memory_fraction` leaves beside the weights, on a CPU 1."""
    memory_fraction: float | None = None
    """Of each GPU's memory, for everything; None is vLLM's own choice."""
    python: str = sys.executable
    """Interpreter of the environment that vLLM is installed in."""
    extra_arguments: tuple[str, ...] = ()
    """Put after ours, so that they count where both say something."""

    @property
    def url(self) -> str:
        """Address that the server answers at."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    @property
    def key(self) -> str | None:
        """The owner's."""
        return self.keys.owner if self.keys else None


def program(python: str) -> str:
    """The whole path of an interpreter, given as one or as a name on PATH.

    Raises ServingError where no program is there.
    """
    found = shutil.which(python)
    if found is None:
        raise ServingError(
            f"there is no program {python!r} to run vLLM with: give the Python of the environment "
            "that vLLM is installed in by its path, in which ~ is not replaced"
        )
    return os.path.abspath(found)  # a virtual environment's is a link, which is to stay


def arguments(spec: ServerSpec) -> list[str]:
    """The server's command line, its interpreter first.

    Raises ServingError for an address that other machines reach without keys, and for a rank beyond
    vLLM's.
    """
    if spec.keys is None and not is_loopback(spec.host):
        raise ServingError(
            f"host {spec.host!r} can be reached from other machines, and vLLM's endpoints for "
            "weights and adapters ask for no key: use 127.0.0.1, and a tunnel from elsewhere"
        )
    words: list[str | int | float] = [
        spec.python, "-m", "vllm.entrypoints.openai.api_server",
        "--model", spec.model,
        "--served-model-name", spec.served_name,
        "--host", spec.host,
        "--port", spec.port,
        "--dtype", spec.dtype,
        # Log-probabilities after temperature, top_p and masks: those of the distribution sampled.
        "--logprobs-mode", "processed_logprobs",
        # Not the model's own sampling settings: a request that says nothing means plain sampling.
        "--generation-config", "vllm",
        # A request's own seed ends the engine where its prompt is read in several pieces.
        "--no-enable-chunked-prefill",
        "--logits-processors", "answer_trie:AnswerTrie",
        "--worker-extension-cls", "weight_update.WeightUpdate",
        "--shutdown-timeout", DRAIN_SECONDS,
        "--disable-uvicorn-access-log",
    ]  # fmt: skip
    if spec.keys is not None:
        words += ["--middleware", "gate.Gate"]
    if spec.max_model_len is not None:
        words += ["--max-model-len", spec.max_model_len]
    if spec.adapter_slots:
        words += ["--enable-lora", "--max-loras", spec.adapter_slots]
        words += ["--max-cpu-loras", spec.adapter_slots, "--max-lora-rank", _rank(spec.max_rank)]
    if spec.gpus:
        words += ["--tensor-parallel-size", len(spec.gpus)]
        if spec.memory_fraction is not None:
            words += ["--gpu-memory-utilization", spec.memory_fraction]
    else:
        # Compiling takes minutes on a CPU; blocks of another size gave stale prefixes there.
        words += ["--enforce-eager", "--block-size", 32]
    memory = spec.memory_gib if spec.gpus or spec.memory_gib is not None else CPU_CACHE_GIB
    if memory is not None:
        words += ["--kv-cache-memory-bytes", int(memory * 2**30)]
    return [*map(str, words), *spec.extra_arguments]


def environment(spec: ServerSpec, inherited: Mapping[str, str]) -> dict[str, str]:
    """The server's environment variables, on top of those it may inherit."""
    kept = {
        name: value
        for name, value in inherited.items()
        if name not in NOT_INHERITED and not name.startswith("TORCHELASTIC_")
    }
    own = {
        "PYTHONPATH": str(PLUGINS),
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True",
        # vLLM's newer model runner, its own choice on GPUs, refuses logits processors such as ours.
        "VLLM_USE_V2_MODEL_RUNNER": "0",
        "VLLM_SERVER_DEV_MODE": "1",  # the endpoints that pause, take weights and resume
        # Longer than between two rounds: by itself vLLM closes idle connections after 5 seconds.
        "VLLM_HTTP_TIMEOUT_KEEP_ALIVE": "3600",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
    }
    if spec.keys is not None:
        own |= {OWNER_KEY: spec.keys.owner, GUEST_KEY: spec.keys.guest}
    if Path(spec.model).is_dir():
        own["HF_HUB_OFFLINE"] = "1"
    if spec.gpus:
        own["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # nvidia-smi's
        own["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, spec.gpus))
    else:
        own["VLLM_CPU_OMP_THREADS_BIND"] = "nobind"
        # Small functions would be compiled at the first request, by a compiler that may be missing.
        own["TORCH_COMPILE_DISABLE"] = "1"
        # A second thread makes it twenty times slower where the trainer computes as well.
        own["OMP_NUM_THREADS"] = inherited.get("OMP_NUM_THREADS", "1")
    return kept | own


def _rank(wanted: int) -> int:
    for rank in LORA_RANKS:
        if wanted <= rank:
            return rank
    raise ServingError(f"adapters of rank {wanted}: vLLM takes at most {LORA_RANKS[-1]}")
