"""Runs of the live page: search for run folders, and reading of files that changed.

Files outside a root folder are not read, even if a folder is replaced by a link during the read.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from srl_agents.episode import Episode, from_json, turn_from_json
from srl_agents.errors import EpisodeError
from srl_envs.untrusted import printable
from srl_extensions.pages.run_folder import RecordedRun, load
from srl_train.errors import MetricsError, RunFolderError

MOST_ROWS, MOST_WARNED = 480, 30
"""Limits of the evenly spread rounds that are read of a run, and of other rounds with warnings."""
LONGEST_ROW, LONGEST_EPISODE = 2**20, 8 * 2**20
"""Limits in bytes of a row, and of the running episode."""
MARKS = ("config.yaml", "metrics.jsonl", "summary.json")
"""Files of which a run folder contains at least one."""
FILES = (*MARKS, "stages.jsonl", "playing.jsonl")
DEEPEST, MOST_RUNS = 3, 100
"""Limits of the searched levels below a given folder, and of the runs that are shown."""


def open_beneath(path: Path, root: Path) -> BinaryIO:
    """Open a plain file below `root` for reading.

    Links are resolved first. Then each component of the path is opened from the descriptor of its
    parent and must not be a link, so that a component replaced by a link in between is an error.

    Args:
        path: Absolute path of a file.
        root: Resolved folder. Nothing outside of `root` is opened.

    Raises:
        RunFolderError: If `path` leads outside of `root` or is not a plain file.
        OSError: If a component cannot be opened.
    """
    real = Path(os.path.realpath(path))
    if not real.is_relative_to(root):
        raise RunFolderError(f"{path.name} leads outside {root}: it is not read")
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    opened = os.open(root, flags | os.O_DIRECTORY)
    for name in real.relative_to(root).parts:
        parent = opened
        try:
            opened = os.open(name, flags, dir_fd=parent)
        finally:
            os.close(parent)
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise RunFolderError(f"{path.name} is not a plain file: it is not read")
    return os.fdopen(opened, "rb")


def thinned(file: BinaryIO) -> BinaryIO:
    """Close `file`; return one in memory with evenly spread lines, warnings and the last two."""
    kept: dict[int, bytes] = {}
    warned: dict[int, bytes] = {}
    newest: deque[tuple[int, bytes]] = deque(maxlen=2)  # The last line may be incomplete.
    stride = 1
    with file:
        for number, line in enumerate(iter(partial(file.readline, LONGEST_ROW), b"")):
            newest.append((number, line))
            if number % stride == 0:
                kept[number] = line
            if len(kept) > MOST_ROWS:
                stride *= 2
                kept = {place: one for place, one in kept.items() if place % stride == 0}
            if b'"warnings": ["' in line and len(warned) < MOST_WARNED:
                warned[number] = line
    found = kept | warned | dict(newest)
    return BytesIO(b"".join(found[number] for number in sorted(found)))


class WatchedRun:
    """Run in a folder below `root`, read again when its files change.

    Args:
        folder: Folder of the run, which may appear and disappear at any time.
        root: Resolved folder. Nothing outside of `root` is read.
    """

    def __init__(self, folder: Path, root: Path) -> None:
        self.folder = folder
        self.root = root
        self.version = 0
        """Number of times that the files were read."""
        self.record: RecordedRun | None = None
        """Run as far as its files are written; None if the files cannot be read."""
        self.playing: Episode | None = None
        """Episode in playing.jsonl so far, or None."""
        self.playing_ended = False
        self.problems: list[str] = []
        """Errors of the last read."""
        self.written = 0.0
        """Time of the last modification of a file, in seconds since the epoch."""
        self._seen: object = None

    def refresh(self) -> None:
        """Read the files again if one of them changed."""
        found = {}
        for name in FILES:
            try:
                status = os.stat(self.folder / name)
            except OSError:
                continue
            found[name] = (status.st_ino, status.st_mtime_ns, status.st_size)
        if found == self._seen:
            return
        self._seen = found
        self.version += 1
        self.written = max((mtime / 1e9 for _, mtime, _ in found.values()), default=0.0)
        self.problems = []
        self.record = self.playing = None
        try:
            self.record = load(self.folder, self._opened)
            self._read_playing()
        except FileNotFoundError:
            self.playing = None
        except (EpisodeError, MetricsError, RunFolderError, OSError) as error:
            self.problems.append(str(error))

    def _opened(self, path: Path) -> BinaryIO:
        file = open_beneath(path, self.root)
        return thinned(file) if path.name == "metrics.jsonl" else file

    def _read_playing(self) -> None:
        """Read playing.jsonl: a line with an episode without turns, then a line per turn."""
        with self._opened(self.folder / "playing.jsonl") as file:
            lines = file.read(LONGEST_EPISODE).decode("utf-8", "replace").split("\n")[:-1]
        if lines:
            turns = [turn_from_json(line) for line in lines[1:]]
            self.playing_ended = bool(turns) and not turns[-1]
            self.playing = replace(from_json(lines[0]), turns=tuple(filter(None, turns)))


def holds_run(folder: Path) -> bool:
    """Return True if the folder contains a file that only run folders have (MARKS)."""
    return any(os.path.exists(folder / name) for name in MARKS)


class RunFolders:
    """Runs in several folders and in the folders below them."""

    def __init__(self, given: Sequence[Path]) -> None:
        self.given = tuple(folder.absolute() for folder in given)
        self.runs: dict[str, WatchedRun] = {}
        """Mapping from displayed name to run, in the order of the last change."""

    def look(self) -> None:
        """Search for runs, and keep the MOST_RUNS runs that changed last in `runs`."""
        found: dict[str, tuple[float, Path, Path]] = {}
        for top in self.given:
            root = Path(os.path.realpath(top))
            for folder in _runs_in(top, root, DEEPEST):
                inside = folder.relative_to(top).as_posix()
                name = top.name if inside == "." else inside
                name = printable(str(folder) if name in found else name, multiline=False)
                found[name] = (_changed(folder), folder, root)
        newest = sorted(found.items(), key=lambda item: item[1][0])[-MOST_RUNS:]
        self.runs = {
            name: self.runs.get(name) or WatchedRun(folder, root)
            for name, (_, folder, root) in newest
        }

    @property
    def only_run(self) -> str:
        """Name of the only run if exactly one run folder was given, else ""."""
        names = [name for name, run in self.runs.items() if run.folder in self.given]
        return names[0] if len(names) == len(self.given) == 1 else ""


def _runs_in(folder: Path, root: Path, deepest: int) -> Iterator[Path]:
    """Yield `folder` if it is a run folder, else run folders below, without links out of `root`."""
    if not Path(os.path.realpath(folder)).is_relative_to(root):
        return
    if holds_run(folder):
        yield folder
    elif deepest >= 0:
        try:
            inside = sorted(path for path in folder.iterdir() if path.name[0] != ".")
        except OSError:  # Not a folder, or not readable.
            return
        for path in inside:
            yield from _runs_in(path, root, deepest - 1)


def _changed(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except OSError:
        return 0.0
