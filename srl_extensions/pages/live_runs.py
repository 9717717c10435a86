"""Run folders that are read while they grow, and the search for new ones.

Nothing outside a root folder is read, even if a folder is swapped for a link during the read.
"""

from __future__ import annotations

import os
import stat
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypeGuard

from srl_agents.episode import AgentStep, Episode, from_json, turn_from_json
from srl_agents.errors import EpisodeError
from srl_envs.errors import DocumentError
from srl_envs.loading import MAX_YAML
from srl_envs.untrusted import MAX_BYTES, printable, read_json
from srl_train.metrics.errors import MetricsError, RunFolderError
from srl_train.metrics.run_folder import (
    LARGEST,
    RecordedRun,
    by_stage,
    check_row,
    config_of,
    summary_of,
)

CHUNK = 2**20
"""Number of bytes that are read at once. A longer line is counted as damaged."""
MOST_ROWS = 480
"""Number of rows that are kept of a run. Of longer runs, neighboring rounds are averaged."""
RECENT_ROUNDS = 20
"""Number of rounds over which the pace is averaged."""
MOST_WARNINGS, MOST_TURNS = 30, 200
MOST_SAMPLES = 200
"""Number of files of sample episodes that are offered."""
SUMMED = {"episodes", "failed_episodes", "samples", "updated", "weight_change", "bytes_sent",
          "bytes_received"}  # fmt: skip
"""Keys whose numbers are added when rounds are combined. Other numbers are averaged."""
LATEST = {"round", "updates", "samples_dropped_stale", "not_finite"}
"""Keys whose later number is kept when rounds are combined."""
MARKS = ("config.yaml", "metrics.jsonl", "summary.json")
"""Files by which the folder of a run is recognized."""
DEEPEST, MOST_RUNS = 3, 100
"""Number of levels below a given folder that are searched, and number of newest runs shown."""


def descriptor_beneath(path: Path, root: Path) -> int:
    """Open a file or folder for reading, and return its descriptor.

    Links are resolved first. Then each component is opened from the descriptor of its parent and
    may not be a link, so that a component swapped for a link in between is an error.

    Args:
        path: Absolute path of a file or folder.
        root: Resolved folder. Nothing outside of `root` is opened.

    Raises:
        RunFolderError: If `path` leads outside of `root`.
        OSError: If the system refuses to open a component.
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
    return opened


def open_beneath(path: Path, root: Path) -> BinaryIO:
    """Open a plain file below `root` for reading.

    Raises:
        RunFolderError: If `path` leads outside of `root` or is not a plain file.
        OSError: If the system refuses to open the file.
    """
    descriptor = descriptor_beneath(path, root)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise RunFolderError(f"{path.name} is not a plain file: it is not read")
    return os.fdopen(descriptor, "rb")


class GrowingFile:
    """Complete new lines of a file that another process appends to, replaces or removes."""

    def __init__(self, path: Path, root: Path) -> None:
        self.path = path
        self.written = 0.0
        """Time of the last modification, in seconds since the epoch."""
        self._root = root
        self._identity: tuple[int, int] | None = None
        self._offset = 0
        self._before = b""

    def read(self) -> tuple[bool, list[bytes]]:
        """Return whether the file was replaced since the last call, and at most CHUNK bytes of
        new complete lines.

        Raises:
            RunFolderError: If the file is refused by `open_beneath`.
        """
        try:
            file = open_beneath(self.path, self._root)
        except (FileNotFoundError, NotADirectoryError):
            known, self._identity = self._identity is not None, None
            return known, []
        with file:
            status = os.fstat(file.fileno())
            self.written = status.st_mtime
            identity = (status.st_dev, status.st_ino)
            replaced = identity != self._identity or status.st_size < self._offset
            if not replaced:
                # An inode number may be used again, so the bytes before the offset are compared.
                file.seek(self._offset - len(self._before))
                replaced = file.read(len(self._before)) != self._before
            if replaced:
                replaced = self._identity is not None or self._offset > 0
                self._identity, self._offset, self._before = identity, 0, b""
            file.seek(self._offset)
            data = file.read(CHUNK)
        end = data.rfind(b"\n") + 1
        if not end and len(data) == CHUNK:
            end = len(data)
        self._offset += end
        self._before = data[max(0, end - 64) : end] or self._before
        return replaced, [line for line in data[:end].split(b"\n") if line.strip()]


class Rounds:
    """Rows of metrics.jsonl, combined so that their number and their memory stay bounded."""

    def __init__(self) -> None:
        self.rows: list[Mapping[str, Any]] = []
        """Combined rows. The last row may contain fewer rounds than the rows before it."""
        self.stride = 1
        """Number of rounds in a combined row."""
        self.recent: deque[Mapping[str, Any]] = deque(maxlen=RECENT_ROUNDS)
        self.warnings: dict[str, None] = {}
        self._in_last = 0

    def add(self, line: bytes) -> None:
        """Add the row of a round."""
        row = _mapping(line)
        check_row(Path("metrics.jsonl"), len(self.rows) + 1, row, "environment")
        if self.recent and row["round"] <= self.recent[-1]["round"]:
            return
        self.recent.append(row)
        warned = row.get("warnings")
        for warning in warned if isinstance(warned, list) else ():
            if len(self.warnings) < MOST_WARNINGS:
                self.warnings[str(warning)] = None
        if 0 < self._in_last < self.stride:
            share = self._in_last / (self._in_last + 1)
            self.rows[-1] = combined(self.rows[-1], row, share)
            self._in_last += 1
            return
        if len(self.rows) == MOST_ROWS:
            pairs = zip(self.rows[::2], self.rows[1::2], strict=True)
            self.rows = [combined(first, second, 0.5) for first, second in pairs]
            self.stride *= 2
        self.rows.append(row)
        self._in_last = 1


def combined(first: Any, second: Any, share: float) -> Any:
    """Combine two values in rows of consecutive rounds; `share` is the weight of the first."""
    if isinstance(first, dict) and isinstance(second, dict):
        found: dict[str, Any] = {}
        for key in first | second:
            old, new = first.get(key), second.get(key)
            if key in LATEST:
                found[key] = old if new is None else new
            elif key in ("winners", "seconds") and old and new:
                found[key] = dict(Counter(old) + Counter(new))
            elif key in SUMMED and _is_number(old) and _is_number(new):
                found[key] = old + new
            else:
                found[key] = combined(old, new, share)
        return found
    if _is_number(first) and _is_number(second):
        return share * first + (1 - share) * second
    return first if second is None else second


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and -LARGEST < value < LARGEST


class Newest:
    """Newest `most` entries of a file of JSON lines, each parsed from its number and mapping."""

    def __init__(self, most: int, parse: Callable[[int, dict[str, Any]], Any]) -> None:
        self.entries: deque[Any] = deque(maxlen=most)
        self._parse = parse

    def add(self, line: bytes) -> None:
        """Add the entry of a line."""
        self.entries.append(self._parse(len(self.entries) + 1, _mapping(line)))


def _pass(number: int, row: dict[str, Any]) -> dict[str, Any]:
    check_row(Path("stages.jsonl"), number, row, "stage")
    return row


class RunningEpisode:
    """Episode in playing.jsonl: a record without steps, then a line per step of all agents."""

    def __init__(self) -> None:
        self.finished = False
        self._start: Episode | None = None
        self._turns: deque[tuple[AgentStep, ...]] = deque(maxlen=MOST_TURNS)

    def add(self, line: bytes) -> None:
        """Add a line."""
        text = line.decode("utf-8", "replace")
        if self._start is None:
            self._start = from_json(text)
        elif turn := turn_from_json(text):
            self._turns.append(turn)
        else:
            self.finished = True

    @property
    def episode(self) -> Episode | None:
        """Episode so far, or None if no episode is recorded."""
        return None if self._start is None else replace(self._start, turns=tuple(self._turns))


GROWING: Mapping[str, Callable[[], Rounds | Newest | RunningEpisode]] = {
    "metrics": Rounds,
    "stages": partial(Newest, 200, _pass),
    "playing": RunningEpisode,
}
"""Name of a file of JSON lines to its content."""
REFUSED = (DocumentError, EpisodeError, MetricsError, RunFolderError)


def _mapping(line: bytes) -> dict[str, Any]:
    row = read_json(line)
    if not isinstance(row, dict):
        raise DocumentError("not a mapping")
    return row


@dataclass(frozen=True, kw_only=True)
class WatchedRun(RecordedRun):
    """Run as far as its files were read. `rows` are combined rows of at most MOST_ROWS."""

    root: Path
    """Resolved folder. Nothing outside of `root` is read."""
    rounds_read: Rounds
    playing: RunningEpisode
    files: tuple[str, ...]
    """Names of the newest files of sample episodes, in order."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings of the run, each once."""
        return tuple(dict.fromkeys((*super().warnings, *self.rounds_read.warnings)))


class RunFollower:
    """Reader of one run folder below `root`. The folder may appear later and disappear."""

    def __init__(self, folder: Path, root: Path) -> None:
        self.folder = folder
        self.root = root
        self.version = 0
        """Number of refreshes that found something new."""
        self.behind = False
        """True if the last refresh stopped before the end of a file."""
        self._growing = {name: GrowingFile(folder / f"{name}.jsonl", root) for name in GROWING}
        self._content: dict[str, Any] = {name: made() for name, made in GROWING.items()}
        self._damaged = dict.fromkeys(GROWING, 0)
        self._seen: dict[str, object] = {}
        self._config: tuple[str, Mapping[str, Any]] = ("", {})
        self._summary: Mapping[str, Any] = {}
        self._files: tuple[str, ...] = ()
        self._problems: dict[str, str] = {}

    @property
    def exists(self) -> bool:
        """True if the folder contains a run."""
        return holds_run(self.folder)

    @property
    def written(self) -> float:
        """Time of the last modification of a growing file, in seconds since the epoch."""
        return max(file.written for file in self._growing.values())

    def refresh(self, seconds: float = 0.5) -> bool:
        """Read new content for about `seconds`, and return whether there was any."""
        until = time.monotonic() + seconds
        self.behind = False
        readers: dict[str, Callable[[], bool]] = {
            "config.yaml": partial(self._read_whole, "config.yaml", MAX_YAML),
            "summary.json": partial(self._read_whole, "summary.json", MAX_BYTES),
            "episodes": self._list_samples,
        }
        for name in GROWING:
            readers[f"{name}.jsonl"] = partial(self._read_lines, name, until)
        changed = False
        for name, read in readers.items():
            known = self._problems.get(name)
            try:
                new = read()
                if new or name.endswith(".jsonl"):
                    self._problems.pop(name, None)
                changed |= new
            except FileNotFoundError:
                self._problems.pop(name, None)
                changed |= self._seen.pop(name, None) is not None
            except (RunFolderError, OSError) as error:
                problem = f"{name}: {error.strerror}" if isinstance(error, OSError) else str(error)
                self._problems[name] = problem
            changed |= self._problems.get(name) != known
        self.version += changed
        return changed

    def run(self) -> WatchedRun:
        """Return the run as far as its files were read."""
        rounds, episode = self._content["metrics"], self._content["playing"]
        damaged = [f"{n} lines of {name}.jsonl cannot be read."
                   for name, n in self._damaged.items() if n]  # fmt: skip
        return WatchedRun(
            folder=self.folder,
            rows=tuple(rounds.rows),
            stages=by_stage(self._content["stages"].entries),
            summary=self._summary,
            config_text=self._config[0],
            config=self._config[1],
            samples=(),
            notes=(*self._problems.values(), *damaged),
            root=self.root,
            rounds_read=rounds,
            playing=episode,
            files=self._files,
        )

    def _read_lines(self, name: str, until: float) -> bool:
        changed = False
        while True:
            replaced, lines = self._growing[name].read()
            if replaced:
                self._content[name], self._damaged[name] = GROWING[name](), 0
            for line in lines:
                try:
                    self._content[name].add(line)
                except REFUSED:
                    self._damaged[name] += 1
            changed |= replaced or bool(lines)
            self.behind |= bool(lines) and time.monotonic() > until
            if not lines or self.behind:
                return changed

    def _read_whole(self, name: str, most: int) -> bool:
        with open_beneath(self.folder / name, self.root) as file:
            status = os.fstat(file.fileno())
            version = (status.st_ino, status.st_mtime_ns, status.st_size)
            if self._seen.get(name) == version:
                return False
            self._seen[name] = version
            content = file.read(most + 1)
        if len(content) > most:
            raise RunFolderError(f"{name} has more than {most} bytes: it is not read")
        if name == "config.yaml":
            self._config = config_of(self.folder / name, content)
        else:
            self._summary = summary_of(self.folder / name, content)
        return True

    def _list_samples(self) -> bool:
        before, self._files = self._files, ()
        folder = descriptor_beneath(self.folder / "episodes", self.root)
        try:
            version = os.fstat(folder).st_mtime_ns
            if self._seen.get("episodes") == version:
                self._files = before
                return False
            self._seen["episodes"] = version
            names = sorted(
                entry.name
                for entry in os.scandir(folder)
                if entry.name.startswith("round_")
                and entry.name.endswith(".jsonl")
                and entry.is_file(follow_symlinks=False)
            )
        finally:
            os.close(folder)
        self._files = tuple(names[-MOST_SAMPLES:])
        return self._files != before


def holds_run(folder: Path) -> bool:
    """Return whether the folder is the folder of a run; False if the folder is not readable."""
    return any(os.path.exists(folder / name) for name in MARKS)


class RunFolders:
    """Runs below several folders; a folder may also be a run itself."""

    def __init__(self, given: Sequence[Path]) -> None:
        self.given = tuple(given)
        self.runs: dict[str, RunFollower] = {}
        """Shown name to the follower. A name stays with its folder."""
        self.left_out = 0
        """Number of runs that are not followed."""

    def look(self) -> None:
        """Search for new runs, and keep the MOST_RUNS that changed last."""
        found = {folder: root for top in self.given for folder, root in _runs_in(top.absolute())}
        known = {follower.folder for follower in self.runs.values()}
        age = {folder: _changed(folder) for folder in (*known, *found)}
        newest = sorted(age, key=age.__getitem__)[-MOST_RUNS:]
        self.left_out = len(age) - len(newest)
        new = [folder for folder in newest if folder not in known]
        if new:
            kept = {name: one for name, one in self.runs.items() if one.folder in newest}
            for folder in new:
                kept[_name(folder, found[folder], kept)] = RunFollower(folder, found[folder])
            self.runs = kept

    @property
    def only_run(self) -> str:
        """Name of the run if one run folder was given and nothing else, or ""."""
        alone = len(self.runs) == len(self.given) == 1
        return next(
            (n for n, run in self.runs.items() if alone and run.folder == self.given[0].absolute()),
            "",
        )


def _name(folder: Path, root: Path, taken: Mapping[str, RunFollower]) -> str:
    inside = Path(os.path.realpath(folder)).relative_to(root).as_posix()
    name = first = printable(root.name if inside == "." else inside, multiline=False)
    number = 2
    while name in taken:
        name, number = f"{first} ({number})", number + 1
    return name


def _runs_in(top: Path) -> Iterator[tuple[Path, Path]]:
    """Yield the folder of each run at `top` and below, with the root of its links."""
    root = Path(os.path.realpath(top))
    level = [top]
    for _ in range(DEEPEST + 1):
        below: list[Path] = []
        for folder in level:
            if holds_run(folder):
                yield folder, root
                continue
            try:
                inside = sorted(path for path in folder.iterdir() if path.name[0] != ".")
            except OSError:
                continue
            below += [
                path
                for path in inside
                if os.path.isdir(path) and Path(os.path.realpath(path)).is_relative_to(root)
            ]
        level = below


def _changed(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except OSError:
        return 0.0
