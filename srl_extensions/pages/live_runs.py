"""Runs of the live page: search for run folders, and reading of files that changed.

Links below the given folders are not followed, even if a folder is replaced by a link during a
read.
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

MOST_ROWS = 480
"""Limit of the evenly spread rounds that are read of a run."""
LONGEST_ROW, LONGEST_EPISODE = 2**20, 8 * 2**20
"""Limits in bytes of a row, and of the running episode."""
MARKS = {"config.yaml", "metrics.jsonl", "summary.json"}
"""Files of which a run folder contains at least one."""
FILES = (*MARKS, "stages.jsonl", "playing.jsonl")
DEEPEST, MOST_RUNS = 3, 100
"""Limits of the searched levels below a given folder, and of the runs that are shown."""


def open_beneath(path: Path, root: Path) -> BinaryIO:
    """Open a plain file below `root` for reading, without following links.

    Each component of the path is opened from the descriptor of its parent, so that a component
    replaced by a link is an error.

    Args:
        path: Path of a file below `root`.
        root: Absolute path of a folder that is not a link.

    Raises:
        RunFolderError: If the file is not a plain file.
        OSError: If a component is a link, or cannot be opened.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    opened = os.open(root, flags)
    for name in path.relative_to(root).parts:
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
    """Close `file`, and return its evenly spread lines and its last two as a file in memory."""
    kept: dict[int, bytes] = {}
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
    return BytesIO(b"".join((kept | dict(newest)).values()))


class WatchedRun:
    """Run in a folder below `root`, read again when its files change.

    Args:
        folder: Folder of the run, which may appear and disappear at any time.
        root: Folder outside of which nothing is read, as in `open_beneath`.
    """

    def __init__(self, folder: Path, root: Path) -> None:
        self.folder, self.root = folder, root
        self.seen: dict[str, tuple[int, int]] = {}
        """Time of the last modification in nanoseconds, and size in bytes, of each file read."""
        self.record: RecordedRun | None = None
        """Run as far as its files are written; None if the files cannot be read."""
        self.playing: Episode | None = None
        """Episode in playing.jsonl so far, or None."""
        self.playing_ended = False
        self.problems: list[str] = []
        """Errors of the last read."""

    def refresh(self) -> None:
        """Read the files again if one of them changed."""
        found = {}
        for name in FILES:
            try:
                status = os.lstat(self.folder / name)
            except OSError:
                continue
            found[name] = (status.st_mtime_ns, status.st_size)
        if found == self.seen:
            return
        self.seen, self.problems = found, []
        self.record = self.playing = None
        try:
            self.record = load(self.folder, self._opened)
            if "playing.jsonl" in found:
                self._read_playing()
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


def find_runs(roots: Sequence[Path]) -> dict[str, WatchedRun]:
    """Return the runs in and below the folders `roots` by displayed name.

    The runs are the MOST_RUNS ones that changed last, in the order of the last change.
    """
    found: dict[str, WatchedRun] = {}
    for root in roots:
        for folder in _run_folders(root):
            name = root.name if folder == root else folder.relative_to(root).as_posix()
            name = printable(str(folder) if name in found else name, multiline=False)
            found[name] = WatchedRun(folder, root)
    order = sorted(found, key=lambda name: os.lstat(found[name].folder).st_mtime)
    return {name: found[name] for name in order[-MOST_RUNS:]}


def _run_folders(root: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(root):
        folder = Path(place)
        if MARKS.intersection(files):
            yield folder
            folders.clear()
        elif len(folder.relative_to(root).parts) == DEEPEST:
            folders.clear()
        folders[:] = sorted(name for name in folders if name[0] != ".")
