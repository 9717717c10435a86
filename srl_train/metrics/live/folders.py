"""Runs in the folders that are watched, found as they appear."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from srl_train.metrics.live.follower import MARKS, Follower

DEEPEST = 3
"""Folders below one that was given in which runs are looked for."""
MOST_RUNS = 100
"""The newest are followed, by when their folders were changed."""


class Folders:
    """The runs in several folders, each of which may be a run itself."""

    def __init__(self, given: Sequence[Path]) -> None:
        self.given = tuple(given)
        self.runs: dict[str, Follower] = {}
        """Name -> its follower. A name stays with its folder, also when that is gone."""
        self.left_out = 0
        """Runs that are not followed, for there are too many."""

    def look(self) -> bool:
        """Look for runs that were not there before; whether any was."""
        found = {folder: root for top in self.given for folder, root in _runs_in(top.absolute())}
        known = {follower.folder for follower in self.runs.values()}
        new = [(folder, root) for folder, root in found.items() if folder not in known]
        new.sort(key=lambda pair: _changed(pair[0]), reverse=True)
        room = MOST_RUNS - len(self.runs)
        self.left_out = max(0, len(new) - room)
        for folder, root in reversed(new[:room]):
            self.runs[self._name(folder, root)] = Follower(folder, root)
        return bool(new[:room])

    def _name(self, folder: Path, root: Path) -> str:
        """The folder's place below the one that was given."""
        inside = folder.resolve().relative_to(root).as_posix()
        name = root.name if inside == "." else inside
        taken = sum(one == name or one.startswith(f"{name} (") for one in self.runs)
        return f"{name} ({taken + 1})" if taken else name


def _runs_in(top: Path) -> Iterator[tuple[Path, Path]]:
    """(a run's folder, the folder that nothing may lead out of), at `top` and below."""
    root = top.resolve()
    level = [top]
    for _ in range(DEEPEST + 1):
        below: list[Path] = []
        for folder in level:
            if any((folder / name).exists() for name in MARKS):
                yield folder, root
            else:
                below += _folders_in(folder, root)
        level = below


def _folders_in(folder: Path, root: Path) -> list[Path]:
    try:
        found = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
        return [one for one in found if one.is_dir() and one.resolve().is_relative_to(root)]
    except OSError:  # gone, or not to be read: no run is in it
        return []


def _changed(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except OSError:  # it went away just now
        return 0.0
