"""Files of a run folder, its lock, and checks before files are written."""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from importlib import metadata
from itertools import count
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

import numpy as np

from srl_agents.atomic_files import whole_file
from srl_train.errors import ConfigError, TrainingError

if TYPE_CHECKING:
    from filelock import BaseFileLock

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_REPORTED_PACKAGES = ("core-srl", "torch", "transformers", "trl", "peft", "numpy", "pettingzoo")


class RunFiles:
    """Paths of the files in a run's folder, and operations on the folder."""

    def __init__(self, folder: Path, checkpoints: Path) -> None:
        self.folder, self.checkpoints = folder, checkpoints
        self._existed = folder.exists()
        self.config = folder / "config.yaml"
        self.lock_file = folder / "run.lock"
        self.metrics = folder / "metrics.jsonl"
        self.stages = folder / "stages.jsonl"
        self.data = folder / "data"
        self.models = folder / "models"
        self.server_logs = folder / "server-logs"

    def lock(self) -> BaseFileLock:
        """Create and lock the folder; return the lock, which ends with the process at the latest.

        The file run.lock contains the process id. Raises ConfigError, without waiting, if the
        folder is locked or not writable.
        """
        from filelock import FileLock, Timeout  # Other commands do not require filelock.

        path = self.lock_file
        refuse_unwritable("the run's folder", self.config)
        lock = FileLock(path, blocking=False, thread_local=False, on_acquired=_write_pid)
        try:
            lock.acquire()
        except Timeout:
            # A process that has just locked the file may not have written its id yet.
            number = path.read_text(errors="replace")[:20]
            same = number == str(os.getpid())
            holder = "another Trainer of this process" if same else f"process {number or 'unknown'}"
            raise ConfigError(
                f"{self.folder} is in use by {holder}: wait until it ends, or choose another folder"
            ) from None
        return lock

    def remove_if_unused(self) -> None:
        """Remove run.lock if alone in the folder, then the folder if newer than this object."""
        if list(self.folder.iterdir()) == [self.lock_file]:
            self.lock_file.unlink()
            if not self._existed:
                self.folder.rmdir()

    @contextmanager
    def on_full_disk(self) -> Iterator[None]:
        """Raise TrainingError for a full disk or SafetensorError in the block."""
        from safetensors import SafetensorError  # Other commands do not require safetensors.

        try:
            yield
        except (OSError, SafetensorError) as error:
            if isinstance(error, OSError) and error.errno not in _NO_SPACE:
                raise
            raise TrainingError(
                f"cannot write into {self.folder} ({error}): earlier checkpoints are complete; "
                f"free space and resume: srl train --resume --out {self.folder}"
            ) from error

    def refuse_to_overwrite(self) -> None:
        """Raise ConfigError if the folder has metrics rows, a checkpoint or saved models."""
        saved = any(self.checkpoints.glob("[!.]*/manifest.json")) or any(self.models.glob("*"))
        if saved or any(p.exists() and p.stat().st_size for p in (self.metrics, self.stages)):
            raise ConfigError(
                f"{self.folder} already contains a run: resume it (srl train --resume --out "
                f"{self.folder}), remove it, or choose another folder"
            )

    def set_aside(self) -> Path | None:
        """Move an earlier run's files into a new folder next to this one; return the new one.

        Its name is the first free one of FOLDER-1, FOLDER-2, ... Without such files, returns None.
        """
        names = ("config.yaml", "metrics.jsonl", "stages.jsonl", "summary.json",
               "report.html", "trackers.json",
               "episodes", "data", "models", "server-logs", "tensorboard", "wandb")  # fmt: skip
        saved = [manifest.parent for manifest in self.checkpoints.glob("*/manifest.json")]
        if saved and self.checkpoints != self.folder:
            saved = [self.checkpoints]
        existing = [path for name in names if (path := self.folder / name).exists()] + saved
        if not existing:
            return None
        folder = self.folder.resolve()  # "." has no name.
        candidates = (folder.with_name(f"{folder.name}-{number}") for number in count(1))
        target = next(candidate for candidate in candidates if not candidate.exists())
        target.mkdir()
        for path in existing:
            path.rename(target / path.name)
        return target


def _write_pid(descriptor: int) -> None:
    os.ftruncate(descriptor, 0)
    os.write(descriptor, str(os.getpid()).encode())


def write_whole(path: Path, text: str) -> None:
    """Write UTF-8 text to `path` atomically, replacing a file there; create missing folders."""
    with whole_file(path) as file:
        file.write(text)


def refuse_taken(folder: Path, advice: str = "") -> None:
    """Raise ConfigError, with `advice` ("" or "..., "), unless `folder` is empty or missing."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder} already exists: {advice}choose another folder, or remove it")


def refuse_unwritable(flag: str, path: Path) -> None:
    """Create `path`'s folder; raise ConfigError, with `flag`, unless `path` can be written."""
    with asked_for(flag, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():
            raise OSError(errno.EEXIST, "it is a folder or a device")
        with TemporaryFile(dir=path.parent):
            pass


@contextmanager
def asked_for(flag: str, path: Path) -> Iterator[None]:
    """Raise ConfigError, which names `path` and its option `flag`, for an OSError in the block."""
    try:
        yield
    except OSError as error:
        raise ConfigError(f"{flag}: cannot write {path} ({error.strerror})") from error


@cache
def versions() -> dict[str, str]:
    """Return package -> version of core-srl and its main dependencies, if installed."""
    found = {}
    for package in _REPORTED_PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


def is_checkpoint(folder: Path) -> bool:
    """Return True if the folder has files manifest.json and state.json."""
    return (folder / "manifest.json").is_file() and (folder / "state.json").is_file()


def finite(value: Any) -> Any:
    """Return a copy of nested mappings, lists and tuples for JSON.

    NaN and infinity become None, NumPy scalars Python numbers, and tuples lists.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [finite(entry) for entry in value]
    return value
