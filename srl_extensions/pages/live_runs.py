"""Runs of the live page: search for run folders, files that changed, and their documents.

Links below the given folders are not followed, even if a folder is replaced by a link during a
read.
"""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from srl_envs.untrusted import printable
from srl_extensions.pages import report
from srl_extensions.pages.document import Document, Notes, RoundProgress, Runs, Text
from srl_extensions.pages.run_folder import RecordedRun, load, mean, number_at
from srl_train.errors import MetricsError, RunFolderError
from srl_train.metrics.tables import number

MOST_ROWS = 480
"""Limit of the evenly spread rounds that are read of a run."""
LONGEST_ROW = 2**20
"""Limit in bytes of a row."""
MARKS = {"config.yaml", "metrics.jsonl", "summary.json"}
"""Files of which a run folder contains at least one."""
FILES = (*MARKS, "stages.jsonl")
RECENT_ROWS = 20
"""Number of rows over which the pace is averaged."""
DEEPEST, MOST_RUNS = 3, 100
"""Limits of the searched levels below a given folder, and of the runs that are shown."""


def open_beneath(path: Path, root: Path) -> BinaryIO:
    """Open a plain file below the folder `root` for reading, without following links.

    `path` starts with `root`, which is absolute and not a link. Raises OSError if a component of
    `path` is a link or missing, and RunFolderError for a file that is not plain.
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
    """Return up to 480 evenly spread lines and the last two as a file in memory; close `file`."""
    with file:
        count = sum(1 for _ in _lines(file))
        file.seek(0)
        stride = 1 + count // MOST_ROWS
        kept = [
            line
            for number, line in enumerate(_lines(file))
            if number % stride == 0 or number >= count - 2  # The last line may be incomplete.
        ]
    return BytesIO(b"".join(kept))


def _lines(file: BinaryIO) -> Iterator[bytes]:
    return iter(partial(file.readline, LONGEST_ROW), b"")


class WatchedRun:
    """Run in a folder that may appear and disappear; `refresh` reads its files if they changed.

    Nothing outside the folder `root` is read, as in `open_beneath`.
    """

    def __init__(self, folder: Path, root: Path) -> None:
        self.folder, self.root = folder, root
        self.seen: dict[str, tuple[int, int]] = {}
        """Time of the last modification in nanoseconds, and size in bytes, of each file read."""
        self.record: RecordedRun | None = None
        """Run as far as its files are written; None before `refresh`, or if reading fails."""
        self.problem = ""
        """Error of the last read."""

    def refresh(self) -> None:
        """Read all files if one changed; set `seen`, and either `record` or the error `problem`."""
        found = {}
        for name in FILES:
            with suppress(OSError):
                status = os.lstat(self.folder / name)
                found[name] = (status.st_mtime_ns, status.st_size)
        if found == self.seen:
            return
        self.seen, self.record, self.problem = found, None, ""
        try:
            self.record = load(self.folder, self._opened)
        except (MetricsError, RunFolderError) as error:
            self.problem = str(error)

    def _opened(self, path: Path) -> BinaryIO:
        file = open_beneath(path, self.root)
        return thinned(file) if path.name == "metrics.jsonl" else file


def find_runs(roots: Sequence[Path]) -> dict[str, WatchedRun]:
    """Return name -> run, not read yet, in the folders `roots` and up to 3 levels below.

    A name is the path below a root, or the root's own name; the whole path if that is taken. Hidden
    folders, and folders inside a run's folder, are not searched. Only the 100 runs whose folders
    changed last are returned, the newest last.
    """
    found: dict[str, WatchedRun] = {}
    changed: dict[str, float] = {}
    for root in roots:
        for folder in _run_folders(root):
            name = root.name if folder == root else folder.relative_to(root).as_posix()
            name = printable(str(folder) if name in found else name, multiline=False)
            with suppress(OSError):  # The folder may have been removed since the search.
                changed[name] = os.lstat(folder).st_mtime
                found[name] = WatchedRun(folder, root)
    order = sorted(found, key=changed.__getitem__)
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


def of_run(name: str, watched: WatchedRun) -> Document:
    """Return the page of a run after `refresh`: progress and report, or the reading error."""
    if watched.record is None:
        return Document(name, "", [Notes("Files that cannot be read", [watched.problem])])
    return report.report(watched.record, name, [progress(watched.record)])


def overview(runs: Mapping[str, WatchedRun], given: Sequence[Path]) -> Document:
    """Return the page with links to `runs` (name -> run after `refresh`) in reverse order.

    The page names the folders `given`, in which the runs were searched for.
    """
    folders = ", ".join(map(str, given))
    if not runs:
        return Document("No runs yet", folders, [Text(f"No run is in {folders} yet.")])
    lines = []
    for name, watched in runs.items():
        run = watched.record
        about, done = watched.problem, RoundProgress(math.nan, [])
        if run is not None:
            about = f"{report.title(run)} · {run.mode}, {run.strategy}"
            done = progress(run)
        lines.append({"name": name, "about": about, "progress": done})
    title = f"{len(runs)} runs" if len(runs) > 1 else "One run"
    return Document(title, folders, [Runs(lines[::-1])])


def progress(run: RecordedRun) -> RoundProgress:
    """Return the share of complete rounds (NaN: unknown), with a legend of texts.

    The first counts rounds. Others: "finished", or pace and time left if known.
    """
    done, planned = run.rows[-1]["round"] + 1 if run.rows else 0, number_at(run.config, "rounds")
    words = [f"round {done} of {planned:.0f}" if math.isfinite(planned) else f"round {done}"]
    rollout, train, overlap = (
        mean(run.series("seconds", part)[-RECENT_ROWS:]) for part in ("rollout", "train", "overlap")
    )
    seconds = rollout + train - (overlap if math.isfinite(overlap) else 0.0)
    if planned <= done:
        words.append("finished")
    elif math.isfinite(seconds):
        words.append(f"{number(seconds, 3)} s per round")
        if 0 < (left := seconds * (planned - done)) < 1e9:
            words.append(f"{timedelta(seconds=round(left))} left")
    return RoundProgress(done / planned if planned > 0 else math.nan, words)
