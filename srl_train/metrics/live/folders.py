"""Runs in the folders that are watched, found as they appear."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from srl_envs.loading.untrusted import printable
from srl_train.metrics.live.follower import Follower, holds_run
from srl_train.metrics.live.tail import is_inside

DEEPEST = 3
"""Folders below one that was given in which runs are looked for."""
MOST_RUNS = 100
"""The newest are followed, by when their folders were changed."""


class Folders:
    """The runs in several folders, each of which may be a run itself."""

    def __init__(self, given: Sequence[Path]) -> None:
        self.given = tuple(given)
        self.runs: dict[str, Follower] = {}
        """Name -> its follower. A name stays with its folder, also when that is gone, until newer
        runs take its place."""
        self.left_out = 0
        """Runs that are not followed, for there are too many."""

    def look(self) -> bool:
        """Look for runs that were not there before; whether any was."""
        found = {folder: root for top in self.given for folder, root in _runs_in(top.absolute())}
        known = {follower.folder for follower in self.runs.values()}
        new = [(folder, root) for folder, root in found.items() if folder not in known]
        age = {folder: _changed(folder) for folder in (*known, *found)}
        newest = set(sorted(age, key=age.__getitem__, reverse=True)[:MOST_RUNS])
        self.left_out = len(age) - len(newest)
        new = sorted((pair for pair in new if pair[0] in newest), key=lambda pair: age[pair[0]])
        if new:
            self.runs = {n: one for n, one in self.runs.items() if one.folder in newest}
        for folder, root in new:
            self.runs[self._name(folder, root)] = Follower(folder, root)
        return bool(new)

    def _name(self, folder: Path, root: Path) -> str:
        """The folder's place below the one that was given, as a page and an address show it."""
        inside = Path(os.path.realpath(folder)).relative_to(root).as_posix()
        name = first = printable(root.name if inside == "." else inside, multiline=False)
        number = 2
        while name in self.runs:
            name, number = f"{first} ({number})", number + 1
        return name


def _runs_in(top: Path) -> Iterator[tuple[Path, Path]]:
    """(a run's folder, the folder that nothing may lead out of), at `top` and below."""
    root = Path(os.path.realpath(top))
    level = [top]
    for _ in range(DEEPEST + 1):
        below: list[Path] = []
        for folder in level:
            if holds_run(folder):
                yield folder, root
            else:
                below += _folders_in(folder, root)
        level = below


def _folders_in(folder: Path, root: Path) -> list[Path]:
    try:
        found = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
        return [one for one in found if os.path.isdir(one) and is_inside(one, root)]
    except OSError:  # gone, or not to be read: no run is in it
        return []


def _changed(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except OSError:  # it went away just now
        return 0.0
