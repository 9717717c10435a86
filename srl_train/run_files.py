"""Files of a run's folder, written atomically (docs/project/architecture.md)."""

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

from srl_agents.atomic_files import whole_file
from srl_train.errors import ConfigError, TrainingError

if TYPE_CHECKING:
    from filelock import BaseFileLock


_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_REPORTED_PACKAGES = ("core-srl", "torch", "transformers", "trl", "peft", "numpy", "pettingzoo")


class RunFiles:
    """Paths of one run."""

    def __init__(self, folder: Path, checkpoints: Path) -> None:
        self.folder, self.checkpoints = folder, checkpoints
        self.config = folder / "config.yaml"
        self.metrics = folder / "metrics.jsonl"
        self.stages = folder / "stages.jsonl"
        self.data = folder / "data"
        self.models = folder / "models"
        self.server_logs = folder / "server-logs"

    def lock(self) -> BaseFileLock:
        """Lock the run's folder until the lock is released, deleted, or the process ends.

        Forked children do not keep the lock. Raises ConfigError if another Trainer has the lock.
        """
        from filelock import FileLock, Timeout  # only here: evaluations need no filelock

        path = self.folder / "run.lock"
        refuse_unwritable("the run's folder", self.config)
        lock = FileLock(path, blocking=False, thread_local=False, on_acquired=_write_pid)
        try:
            lock.acquire()
        except Timeout:
            # Until a process that has just locked the file writes its number, it is another one's.
            number = path.read_text(errors="replace")[:20]
            own = number == str(os.getpid())
            holder = "another Trainer of this process" if own else f"process {number or 'unknown'}"
            raise ConfigError(
                f"{self.folder} is in use by {holder}: wait until it ends, or choose another folder"
            ) from None
        return lock

    @contextmanager
    def on_full_disk(self) -> Iterator[None]:
        """Raise TrainingError, which says how to resume, if a write fails for lack of space."""
        from safetensors import SafetensorError  # only here: evaluations need no safetensors

        try:
            yield
        except (OSError, SafetensorError) as error:
            if isinstance(error, OSError) and error.errno not in _NO_SPACE:
                raise
            raise TrainingError(
                f"cannot write into {self.folder} ({error}): the checkpoints before this are "
                f"complete; free space and continue: srl train --resume --out {self.folder}"
            ) from error

    def refuse_to_overwrite(self) -> None:
        """Raise ConfigError if the folder has rows, a checkpoint or models of another run."""
        saved = any(self.checkpoints.glob("[!.]*/manifest.json")) or any(self.models.glob("*"))
        if saved or any(p.exists() and p.stat().st_size for p in (self.metrics, self.stages)):
            raise ConfigError(
                f"{self.folder} already holds a run: resume it (srl train --resume --out "
                f"{self.folder}), remove it, or choose another folder"
            )

    def set_aside(self) -> Path | None:
        """Move the files of an earlier run to the first free folder next to this one.

        Returns that folder, or None if there is no earlier run.
        """
        own = ("config.yaml", "metrics.jsonl", "stages.jsonl", "summary.json",
               "playing.jsonl", "report.html", "trackers.json",
               "episodes", "data", "models", "server-logs", "tensorboard", "wandb")  # fmt: skip
        saved = [manifest.parent for manifest in self.checkpoints.glob("*/manifest.json")]
        if saved and self.checkpoints != self.folder:
            saved = [self.checkpoints]
        there = [path for name in own if (path := self.folder / name).exists()] + saved
        if not there:
            return None
        here = self.folder.resolve()  # a folder such as "." has no name of its own
        places = (here.with_name(f"{here.name}-{number}") for number in count(1))
        place = next(place for place in places if not place.exists())
        place.mkdir()
        for path in there:
            path.rename(place / path.name)
        return place


def _write_pid(descriptor: int) -> None:
    os.ftruncate(descriptor, 0)
    os.write(descriptor, str(os.getpid()).encode())


def write_whole(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    with whole_file(path) as file:
        file.write(text)


def refuse_taken(folder: Path) -> None:
    """Raise ConfigError unless the folder is empty or does not exist."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder} is there already: give another folder by --out, or remove it")


def refuse_unwritable(flag: str, path: Path) -> None:
    """Create the folder of `path`, and raise ConfigError if no file can be written there."""
    with asked_for(flag, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():
            raise OSError(errno.EEXIST, "a folder or a device is there")
        with TemporaryFile(dir=path.parent):
            pass


@contextmanager
def asked_for(flag: str, path: Path) -> Iterator[None]:
    """Raise ConfigError if a write of `path`, the value of `flag`, fails."""
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"{flag}: cannot write {path} ({error.strerror}): give another place"
        ) from error


@cache
def versions() -> dict[str, str]:
    """Return the installed versions of the packages that decide a run's numbers."""
    found = {}
    for package in _REPORTED_PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


def is_checkpoint(place: Path) -> bool:
    """Return True if the folder is a checkpoint."""
    return (place / "manifest.json").is_file() and (place / "state.json").is_file()


def finite(value: Any) -> Any:
    """Return the value with None for NaN and infinities, which JSON cannot hold."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [finite(entry) for entry in value]
    return value
