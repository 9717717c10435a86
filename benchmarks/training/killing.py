"""A training run that is killed at a chosen moment, and started again where it left off."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.training import processes
from srl_train.checkpoints import checkpoint
from srl_train.errors import CheckpointError

POLL = 0.0005  # seconds between two looks
SAVING = ".saving.*"  # the hidden folder a checkpoint is written into
WRITING = 0.02  # seconds: within which a kill hits a checkpoint that was just begun


@dataclass(frozen=True)
class Kill:
    """A moment at which a run was killed, and what it left."""

    after: float
    """Seconds since its rounds began."""
    rounds_written: int
    """Whole lines of metrics.jsonl."""
    while_saving: bool
    """Whether a checkpoint was half written."""
    listed: int
    """Checkpoints that were listed as complete."""
    damaged: tuple[str, ...]
    """Those among them that were not."""


@dataclass
class Victim:
    """One run's folder and the process that works in it."""

    config: Path
    out: Path
    setting: Mapping[str, Any]
    restarts: int = 0
    """Times it began anew, for want of a checkpoint."""
    _log: Path = field(init=False)

    def __post_init__(self) -> None:
        self._log = self.out.with_suffix(".log")

    def run_through(self) -> float:
        """Run or resume to the end; returns seconds from the beginning of its rounds."""
        process = self._start()
        began = self._rounds_begin(process)
        process.wait()
        self._check(process)
        return time.monotonic() - began

    def run_and_kill(
        self, after: float, *, while_saving: bool, rng: np.random.Generator
    ) -> Kill | None:
        """Run or resume, and kill `after` seconds; None if the run ended before.

        `while_saving` waits longer, for the next checkpoint to be begun, and kills within
        moments of that.
        """
        process = self._start()
        began = self._rounds_begin(process)
        while process.poll() is None and time.monotonic() < began + after:
            time.sleep(POLL)
        if while_saving:
            while process.poll() is None and not self._half_written():
                time.sleep(POLL)
            time.sleep(float(rng.uniform(0.0, WRITING)))
        process.kill()
        process.wait()
        if process.returncode != -9:  # it was faster
            self._check(process)
            return None
        return self._left(time.monotonic() - began)

    def _start(self) -> subprocess.Popen[bytes]:
        resume = bool(checkpoint.list_checkpoints(self.out / "checkpoints"))
        if self.out.exists() and not resume:
            shutil.rmtree(self.out)
            self.restarts += 1
        # JSON is YAML, which is what --set reads.
        settings = [w for k, v in self.setting.items() for w in ("--set", f"{k}={json.dumps(v)}")]
        words: list[str | Path] = ["train", self.config, "--out", self.out, "--quiet", *settings]
        command = processes.srl(*words, *(["--resume"] if resume else []))
        self._stamp = self._written()
        with self._log.open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, env=processes.environment())

    def _rounds_begin(self, process: subprocess.Popen[bytes]) -> float:
        """Wait until the process writes its configuration, the last thing before its rounds."""
        while process.poll() is None and self._written() == self._stamp:
            time.sleep(POLL)
        return time.monotonic()

    def _written(self) -> int:
        path = self.out / "config.yaml"
        return path.stat().st_mtime_ns if path.exists() else 0

    def _check(self, process: subprocess.Popen[bytes]) -> None:
        if process.returncode:
            last = self._log.read_text(encoding="utf-8", errors="replace").splitlines()[-5:]
            raise RuntimeError(f"exit code {process.returncode}:\n" + "\n".join(last))

    def _half_written(self) -> bool:
        return any((self.out / "checkpoints").glob(SAVING))

    def _left(self, after: float) -> Kill:
        folder = self.out / "checkpoints"
        listed = checkpoint.list_checkpoints(folder)
        damaged = []
        for name in listed:
            try:
                checkpoint.load(folder / name)
            except CheckpointError as error:
                damaged.append(str(error))
        metrics = self.out / "metrics.jsonl"
        rounds = metrics.read_bytes().count(b"\n") if metrics.exists() else 0
        return Kill(after, rounds, self._half_written(), len(listed), tuple(damaged))
