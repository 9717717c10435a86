"""Server worker: a vLLM server on a worker's own node, and the files that are published to it."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from srl_agents.errors import PlacementError
from srl_extensions.vllm import launcher
from srl_extensions.vllm.command import ServerSpec
from srl_extensions.vllm.config import ManagedServersConfig, VLLMBackendConfig
from srl_extensions.vllm.models import (
    check_python,
    no_folder,
    servable,
    served_bases,
    server_specs,
)
from srl_extensions.vllm.placement import find_gpus
from srl_extensions.vllm.server import ModelServer, is_free
from srl_train.config.run import RunConfig
from srl_train.errors import TrainingError

LEFT_BEHIND = launcher.GRACE + 5.0
"""Seconds in which a server ends whose worker was killed."""
POLL = 0.5
"""Seconds between two checks for the end of such a server."""


class ServerWorker:
    """Runs one server of a run."""

    def __init__(
        self, config: RunConfig, gpus: float, make_env: Callable[[], Any], name: str
    ) -> None:
        """`gpus` is how many of its node's are the worker's, which sees no others where there are
        any; `name`, which nobody can guess, is that of its folder, which it takes over from a
        worker before it. Raises ConfigError for what is not on this node."""
        assert isinstance(config.backend, VLLMBackendConfig) and config.backend.managed is not None
        self._config, self._make_env, self._gpus = config, make_env, gpus
        self._backend: VLLMBackendConfig = config.backend
        self._managed: ManagedServersConfig = config.backend.managed
        check_python(self._managed)
        self._folder = Path(self._backend.folder or tempfile.gettempdir(), name)
        shutil.rmtree(self._folder, ignore_errors=True)
        try:
            self._folder.mkdir(mode=0o700)
        except OSError as error:
            raise no_folder(self._backend.folder, error) from error
        self._server: ModelServer | None = None

    def specified(self, base: str, host: str, key: str, logs: Path | None) -> ServerSpec:
        """How the server of this base is started here, with all of the worker's GPUs, at a free
        port.

        `logs` is the folder of its log where it is on this node, else the cache folder has it.
        Raises PlacementError for what does not fit, BackendError for a base that cannot be
        read.
        """
        starts = servable(self._config, self._make_env, self._config.models.bases)
        sources = served_bases(self._config, starts)
        gpus = find_gpus() if self._gpus else []
        if len(gpus) < self._gpus:
            raise PlacementError(
                f"engine.server_gpus: got {self._gpus:g}, and torch finds {len(gpus)} here: "
                "is the driver installed on this node?"
            )
        [spec] = server_specs(
            self._config,
            self._managed.replaced(replicas=1, base_port=None),
            {base: sources[base]},
            logs if logs is not None and logs.is_dir() else None,
            gpus=gpus,
            host=host,
        )
        if self._gpus and spec.memory_fraction is not None:
            memory = spec.memory_fraction * min(1.0, self._gpus)
            spec = replace(spec, memory_fraction=memory)
        return replace(spec, key=key, gpus=tuple(gpu.index for gpu in gpus))

    def start(self, spec: ServerSpec) -> None:
        """Start the server; raises ServingError as ModelServer does, and TrainingError where it was
        on another node."""
        if not _is_own_address(spec.host):
            raise TrainingError(
                f"the node of the model server at {spec.url} was lost: resume the run, whose "
                "servers are placed anew then"
            )
        if self._server is None:
            # One that a worker before this one has left ends by itself.
            latest = time.monotonic() + LEFT_BEHIND
            while not is_free(spec.host, spec.port) and time.monotonic() < latest:
                time.sleep(POLL)
            self._server = ModelServer(spec)
        self._server.start()

    def alive(self) -> bool:
        """Whether the server's process runs."""
        return self._server is not None and self._server.alive

    def stop(self, drain: float) -> None:
        """End the server, with so many seconds for the answers under way, and remove its files."""
        if self._server is not None:
            self._server.stop(drain)
        shutil.rmtree(self._folder, ignore_errors=True)

    def kill(self) -> None:
        """End the server at once."""
        if self._server is not None:
            self._server.kill()

    def cause_of_death(self) -> str:
        """Why the server ended, as its log tells."""
        if self._server is None:
            return "the actor that ran it died"
        return self._server.cause_of_death()

    def laid(self, name: str) -> Path | None:
        """Where the files are that were laid under this name; None where none were."""
        folder = self._folder / name
        return folder if folder.is_dir() else None

    def lay(self, name: str, files: Mapping[str, bytes]) -> Path:
        """The folder of these files (name -> content), where the server finds them."""
        folder = self._folder / name
        part = folder.with_name(f"{name}.part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        for file, content in files.items():
            (part / os.path.basename(file)).write_bytes(content)
        return part.rename(folder)

    def clear(self, name: str) -> None:
        """Remove what was laid under this name."""
        shutil.rmtree(self._folder / name, ignore_errors=True)


def _is_own_address(host: str) -> bool:
    """Return True for an IP address of this machine."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        try:
            probe.bind((host, 0))
        except OSError:
            return False
    return True
