"""Files of a run's folder beside its checkpoints, written atomically.

RUN/config.yaml  metrics.jsonl  stages.jsonl  playing.jsonl  summary.json  episodes/  data/
models/model_0/  server-logs/  trackers.json  tensorboard/  wandb/  run.lock
"""

from __future__ import annotations

import errno
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from itertools import count
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

from srl_agents.atomic_files import whole_file
from srl_agents.episode import Episode, write_jsonl
from srl_train.errors import ConfigError, TrainingError

if TYPE_CHECKING:
    from filelock import BaseFileLock

    from srl_train.config.run import RunConfig

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_REPORTED_PACKAGES = ("core-srl", "torch", "transformers", "trl", "peft", "numpy", "pettingzoo")


@dataclass(frozen=True)
class RunFiles:
    """The paths of one run."""

    folder: Path
    checkpoints: Path

    @property
    def metrics(self) -> Path:
        """One line per round."""
        return self.folder / "metrics.jsonl"

    @property
    def stages(self) -> Path:
        """One line per pass of what is learned from data before the rounds."""
        return self.folder / "stages.jsonl"

    @property
    def playing(self) -> Path:
        """The game under way, turn by turn."""
        return self.folder / "playing.jsonl"

    @property
    def data(self) -> Path:
        """The games that were played to be learned from, stage by stage."""
        return self.folder / "data"

    @property
    def config(self) -> Path:
        """The whole configuration, defaults included."""
        return self.folder / "config.yaml"

    @property
    def models(self) -> Path:
        """The trained models, as Hugging Face folders or PEFT adapters."""
        return self.folder / "models"

    @property
    def server_logs(self) -> Path:
        """The logs of model servers that the run starts."""
        return self.folder / "server-logs"

    def lock(self) -> BaseFileLock:
        """Lock the run's folder until the lock is released, deleted, or the process ends.

        Forked children do not keep the lock. Raises ConfigError if another Trainer has the lock.
        """
        from filelock import FileLock, Timeout  # only here: evaluations need no filelock

        path = self.folder / "run.lock"
        refuse_unwritable("the run's folder", self.config)
        for folder in (self.checkpoints, self.models, self.folder / "episodes"):
            if folder.exists() and not folder.is_dir():
                raise ConfigError(
                    f"{folder} must be a folder, got a file: choose another run folder"
                )
        lock = FileLock(path, blocking=False, thread_local=False, on_acquired=_write_pid)
        with asked_for("the run's folder", path):
            try:
                lock.acquire()
            except Timeout:
                raise ConfigError(
                    f"{self.folder} is in use by {_holder(path)}: wait until it ends, or choose "
                    "another folder"
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
        """Raise ConfigError where another run already lies here: its rows, a checkpoint, models."""
        saved = any(self.checkpoints.glob("[!.]*/manifest.json"))
        rows = any(path.exists() and path.stat().st_size for path in (self.metrics, self.stages))
        if saved:
            raise ConfigError(
                f"{self.folder} already holds a run: resume it (srl train --resume --out "
                f"{self.folder}), remove it, or choose another folder"
            )
        if rows or any(self.models.glob("*")):
            raise ConfigError(
                f"{self.folder} already holds a run, stopped before its first checkpoint: start it "
                f"again (srl train --resume --out {self.folder}), remove it, or choose another "
                "folder"
            )

    def set_aside(self) -> Path | None:
        """Move another run that lies here to the first free folder beside it, and say where.

        Only what a run writes is moved. None where there is no run.
        """
        own = ("config.yaml", "metrics.jsonl", "stages.jsonl", "summary.json",
               "playing.jsonl", "report.html", "trackers.json",
               "episodes", "data", "models", "server-logs", "tensorboard", "wandb")  # fmt: skip
        found = [self.folder / name for name in own]
        saved = [manifest.parent for manifest in self.checkpoints.glob("*/manifest.json")]
        if self.checkpoints != self.folder:
            saved = [self.checkpoints] if saved else []
        there = [path for path in (*found, *saved) if path.exists()]
        if not there:
            return None
        here = self.folder.resolve()  # a folder such as "." has no name of its own
        place = next(
            place
            for number in count(1)
            if not (place := here.with_name(f"{here.name}-{number}")).exists()
        )
        place.mkdir()
        for path in there:
            path.rename(place / path.name)
        return place

    def write_config(self, config: RunConfig) -> None:
        """Write config.yaml."""
        from srl_train.config.yaml_file import dump  # only here: evaluations need no pydantic

        write_whole(self.config, dump(config))

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Write summary.json, with null for numbers that are not finite."""
        write_whole(self.folder / "summary.json", json.dumps(finite(summary), indent=2) + "\n")

    def write_episodes(self, round_number: int, episodes: Sequence[Episode]) -> None:
        """Keep sample episodes of a round."""
        write_jsonl(self.folder / "episodes" / f"round_{round_number:08d}.jsonl", episodes)


def _write_pid(descriptor: int) -> None:
    os.ftruncate(descriptor, 0)
    os.write(descriptor, str(os.getpid()).encode())


def _holder(lock: Path) -> str:
    text = lock.read_text(errors="replace")
    number = int(text) if text.isdecimal() and len(text) < 10 else 0
    if number == os.getpid():
        return f"another Trainer of this process ({number})"
    # Until a process that has just locked the file writes its number, an older number is read.
    return f"process {number}" if number and _lives(number) else "another process"


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError as error:
        return error.errno == errno.EPERM
    return True


def write_whole(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    with whole_file(path) as file:
        file.write(text)


def refuse_taken(folder: Path) -> None:
    """Raise ConfigError where the folder holds something, or is none."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder} is there already: give another folder by --out, or remove it")


def refuse_unwritable(flag: str, path: Path) -> None:
    """Raise ConfigError where no file can be written at `path`; its folder is made.

    For commands to ask before they spend time on what is to be in it.
    """
    with asked_for(flag, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():
            raise OSError(errno.EEXIST, "a folder or a device is there")
        with TemporaryFile(dir=path.parent):
            pass


@contextmanager
def asked_for(flag: str, path: Path) -> Iterator[None]:
    """While a file that a command was asked for is written: ConfigError where that is refused."""
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"{flag}: cannot write {path} ({error.strerror}): give another place"
        ) from error


def versions() -> dict[str, str]:
    """Installed versions of what decides a run's numbers."""
    found = {package: installed(package) for package in _REPORTED_PACKAGES}
    return {package: version for package, version in found.items() if version is not None}


@cache
def installed(package: str) -> str | None:
    """The package's version, read once: a summary after every round tells it."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


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
