"""Follower of a run's folder: what its files say so far, read as they are written."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from srl_agents.errors import EpisodeError
from srl_envs.errors import DocumentError
from srl_envs.loading.strict_yaml import MAX_YAML
from srl_envs.loading.untrusted import MAX_BYTES
from srl_train.metrics.errors import MetricsError, RunFolderError
from srl_train.metrics.live.tail import Tail, is_inside, open_inside
from srl_train.metrics.live.watched_run import GameSoFar, Passes, RoundsSoFar, Spans, WatchedRun
from srl_train.metrics.run_folder import by_stage, config_of, summary_of

MOST_SAMPLES = 200
"""Files of sample episodes that are offered: the newest."""
MARKS = ("config.yaml", "metrics.jsonl", "summary.json")
"""A folder that holds one of these is a run's."""
GROWING: Mapping[str, Callable[[], RoundsSoFar | Passes | Spans | GameSoFar]] = {
    "metrics": RoundsSoFar,
    "stages": Passes,
    "activity": Spans,
    "playing": GameSoFar,
}
"""File that is written line by line -> what its lines come to."""


def holds_run(folder: Path) -> bool:
    """Whether the folder is a run's; one that may not be looked into is none."""
    return any(os.path.exists(folder / name) for name in MARKS)


class Follower:
    """One run's folder, which need not be there yet, or any more.

    `root` is a resolved folder, out of which no link leads.
    """

    def __init__(self, folder: Path, root: Path) -> None:
        self.folder = folder
        self.root = root
        self.version = 0
        """How often something was found to be new."""
        self.behind = False
        """Whether there may be more to read right now."""
        self._so_far: dict[str, Any] = {}
        self._damaged: dict[str, int] = {}
        self._tails = {name: Tail(folder / f"{name}.jsonl", root) for name in GROWING}
        for name in GROWING:
            self._forget(name)
        self._seen: dict[str, object] = {}
        self._config: tuple[str, Mapping[str, Any]] = ("", {})
        self._summary: Mapping[str, Any] = {}
        self._files: tuple[Path, ...] = ()
        self._problems: dict[str, str] = {}
        self._lock = threading.Lock()

    @property
    def there(self) -> bool:
        """Whether the folder holds a run now."""
        return holds_run(self.folder)

    def refresh(self, seconds: float = 0.1) -> bool:
        """Read what is new, for about so many seconds; whether there was anything."""
        with self._lock:
            self.behind = False
            news = self._refresh(time.monotonic() + seconds)
            self.version += news
            return news

    def _refresh(self, until: float) -> bool:
        news = [self._reread(name) for name in ("config.yaml", "summary.json")]
        news.append(self._list_samples())
        news += [self._follow(name, until) for name in self._tails]
        return any(news)

    @property
    def changed(self) -> float:
        """When its files were last written to, as time.time() has it; 0 where there is none."""
        return max(tail.written for tail in self._tails.values())

    def run(self) -> WatchedRun:
        """The run as far as it was read; its columns go on with the file."""
        with self._lock:
            return self._run()

    def _run(self) -> WatchedRun:
        unread = {name: tail.left_out + self._damaged[name] for name, tail in self._tails.items()}
        rounds, game = self._so_far["metrics"], self._so_far["playing"]
        return WatchedRun(
            folder=self.folder,
            rows=tuple(rounds.recent)[-1:],
            stages=by_stage(self._so_far["stages"].rows),
            summary=self._summary,
            config_text=self._config[0],
            config=self._config[1],
            samples=(),
            notes=(
                *self._problems.values(),
                *(f"{n} lines of {name}.jsonl cannot be read." for name, n in unread.items() if n),
            ),
            activity=tuple(self._so_far["activity"].spans),
            so_far=rounds,
            playing=game.episode,
            playing_is_over=game.over,
            files=self._files,
        )

    def _follow(self, name: str, until: float) -> bool:
        """Take the new lines of a file; whether there were any, or fewer than before."""
        news = False
        try:
            while True:
                anew, lines = self._tails[name].read()
                if anew:
                    self._forget(name)
                for line in lines:
                    self._take(name, line)
                news = news or anew or bool(lines)
                if not lines:
                    break
                if time.monotonic() > until:
                    self.behind = True
                    break
        except (RunFolderError, OSError) as error:
            return self._trouble(f"{name}.jsonl", error)
        self._problems.pop(f"{name}.jsonl", None)
        return news

    def _forget(self, name: str) -> None:
        """A file was written anew, as by a run that was resumed."""
        self._so_far[name], self._damaged[name] = GROWING[name](), 0

    def _take(self, name: str, line: bytes) -> None:
        if not line.strip():
            return
        try:
            self._so_far[name].take(line)
        except (DocumentError, EpisodeError, MetricsError, RunFolderError):
            self._damaged[name] += 1

    def _reread(self, name: str) -> bool:
        """Read a file that is written whole, where it is another than was read."""
        path, most = self.folder / name, MAX_YAML if name == "config.yaml" else MAX_BYTES
        try:
            with open_inside(path, self.root) as file:
                status = os.fstat(file.fileno())
                signature = (status.st_ino, status.st_mtime_ns, status.st_size)
                if self._seen.get(name) == signature:
                    return False
                self._seen[name] = signature
                content = file.read(most + 1)
            if len(content) > most:
                raise RunFolderError(f"{name} has more than {most} bytes: it is not read")
            if name == "config.yaml":
                self._config = config_of(path, content)
            else:
                self._summary = summary_of(path, content)
        except FileNotFoundError:
            return self._seen.pop(name, None) is not None
        except (RunFolderError, OSError) as error:
            return self._trouble(name, error)
        self._problems.pop(name, None)
        return True

    def _list_samples(self) -> bool:
        """Look for new files of sample episodes; whether there are."""
        folder = self.folder / "episodes"
        try:
            if not is_inside(folder, self.root):
                raise RunFolderError(f"episodes leads outside {self.root}: it is not read")
            signature = folder.stat().st_mtime_ns
            if self._seen.get("episodes") == signature:
                return False
            newest = sorted(folder.glob("round_*.jsonl"))[-MOST_SAMPLES:]
            found = [one for one in newest if is_inside(one, self.root) and one.is_file()]
        except FileNotFoundError:
            signature, found = 0, []
        except (RunFolderError, OSError) as error:
            return self._trouble("episodes", error)
        self._seen["episodes"] = signature
        self._files, before = tuple(found), self._files
        return self._files != before

    def _trouble(self, name: str, error: Exception) -> bool:
        """Note what cannot be read; whether that is new."""
        told = f"{name}: {error.strerror}" if isinstance(error, OSError) else str(error)
        known, self._problems[name] = self._problems.get(name), told
        return known != told
