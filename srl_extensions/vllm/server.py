"""One vLLM server: settings, command line, environment variables, process and log."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from srl_agents.errors import ServingError
from srl_agents.llm.model_folders import cache_folder
from srl_envs.untrusted import printable
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
PORTS = range(10_000, 32_000)
"""Ports below those that the kernel gives to connections."""
END_SECONDS = 4.0
"""Limit on the wait for the port of a killed server."""
MARGIN = 5.0
"""Seconds that the launcher may take in addition to its GRACE."""
LOG_BYTES = 256 * 1024
"""End of a log that is searched for the cause of a failure."""
ERROR_LINE = re.compile(r"^(?:\(.*?pid=\d+\) )?(?:ERROR \S+ \S+ \[.*?\] )?([\w.]+Error: .*)$", re.M)
"""Last line of a traceback, also after the prefix of vLLM's own log lines."""


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


class ModelServer:
    """Server on this machine, in a separate process group."""

    def __init__(self, spec: ServerSpec) -> None:
        """Prepare the command of `spec`; ServingError if `spec.python` is missing."""
        self.spec = spec
        name = re.sub(r"[^\w.-]", "_", spec.served_name)[:100]
        self.log = (spec.log_folder / f"{name}-{spec.port}.log").absolute()
        # The process runs in the folder of the log, which contains no importable module.
        model = os.path.abspath(spec.model) if os.path.isdir(spec.model) else spec.model
        self.command = arguments(replace(spec, python=program(spec.python), model=model))
        self.process: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    def alive(self) -> bool:
        """Return True if the process runs; False before `start` too."""
        return (process := self.process) is not None and process.poll() is None

    def start(self) -> None:
        """Start the process and append its output to `log`.

        The kernel ends the server when the calling thread ends, so the thread must live as long as
        the server.

        Raises:
            ServingError: If the port is in use, the server runs already or the log is not writable.
        """
        if self.alive():
            raise ServingError(f"{self.spec.name} runs already")
        self.kill()
        try:
            self.log.parent.mkdir(parents=True, exist_ok=True)
            log = self.log.open("ab")
        except OSError as error:
            raise ServingError(f"no log can be written to {self.log} ({error.strerror})") from error
        with log:
            if not is_free(self.spec.port):
                raise ServingError(
                    f"port {self.spec.port} of {HOST} cannot be used: end the program "
                    "that listens there or give another base_port"
                )
            self._log_start = log.tell()
            self.process = subprocess.Popen(
                [sys.executable, launcher.__file__, str(os.getpid()), *self.command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment(self.spec, os.environ),
                cwd=self.log.parent,
                start_new_session=True,  # Signals of this terminal do not reach the new group.
            )

    def stop(self) -> None:
        """End the server, if it runs, and wait; open requests have 5 seconds to complete."""
        if (process := self.process) is not None and self.alive():
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(launcher.GRACE + MARGIN)
        self.kill()

    def kill(self) -> None:
        """Kill all processes of the last start; wait up to 4 seconds until the port is free."""
        process, self.process = self.process, None
        if process is None:
            return
        # The group may consist of another user's processes once all its own have ended.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        latest = time.monotonic() + END_SECONDS
        while not is_free(self.spec.port) and time.monotonic() < latest:
            time.sleep(0.02)

    def cause_of_death(self) -> str:
        """Return the first error in the log's last LOG_BYTES, else its last lines, and its path.

        Ignores lines before the last `start`.
        """
        if not self.log.is_file():
            return f"there is no log {self.log}"
        with self.log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(self._log_start, size - LOG_BYTES))
            text = file.read().decode(errors="replace")
        if error := ERROR_LINE.search(text):
            cause = error[1]
        else:
            cause = " / ".join([line.strip() for line in text.splitlines() if line.strip()][-3:])
        return f"{printable(cause, multiline=False)[:500]}; its log: {self.log}"


def logs_folder() -> Path:
    """Return the cache's folder "server-logs", for logs that belong to no run."""
    return cache_folder() / "server-logs"


def free_port(taken: Collection[int] = ()) -> int:
    """Return a random free port from 10000 to 31999 that is not in `taken`."""
    while True:
        port = secrets.choice(PORTS)
        if port not in taken and is_free(port):
            return port


def is_free(port: int) -> bool:
    """Return True if the port of 127.0.0.1 can be bound, False for an invalid port too."""
    with socket.socket() as probe:
        # Servers set the same option, so connections that were just closed do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except (OSError, OverflowError):  # OverflowError is raised for an invalid port.
            return False
    return True


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
