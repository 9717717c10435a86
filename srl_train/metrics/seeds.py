"""Labels of several runs, and runs that differ only in their seed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from srl_train.metrics.errors import RunFolderError
from srl_train.metrics.run_folder import RecordedRun

_SEED = re.compile(r"[_\-./ ]*(seed)?[_\-= ]*\d+$")
"""End of a folder's name that contains the seed: run_3, run-seed3, run/3."""


@dataclass(frozen=True)
class SeedEntry:
    """Run, or several runs that differ only in their seed, under one label."""

    label: str
    runs: tuple[RecordedRun, ...]


def labels(folders: Sequence[Path]) -> list[str]:
    """Return a short unique name for each folder: as few of its last parts as possible.

    Raises:
        RunFolderError: If a folder is listed twice.
    """
    parts = [folder.resolve().parts for folder in folders]
    for length in range(1, max(map(len, parts)) + 1):
        names = ["/".join(part[-length:]) for part in parts]
        if len(set(names)) == len(names):
            return names
    raise RunFolderError(f"the same run was given twice: {', '.join(map(str, folders))}")


def entries(runs: Sequence[tuple[str, RecordedRun]]) -> list[SeedEntry]:
    """Return the labelled runs; runs with equal settings and different seeds share an entry."""
    alike: dict[str, list[tuple[str, RecordedRun]]] = {}
    for label, run in runs:
        # A run without a configuration has nothing known in common with another run.
        same = sorted((key, value) for key, value in settings(run.config).items() if key != "seed")
        alike.setdefault(repr(same) if run.config else label, []).append((label, run))
    found: list[SeedEntry] = []
    for members in alike.values():
        seeds = {run.seed for _, run in members}
        if len(seeds) == len(members) > 1:
            bare = {_SEED.sub("", label) for label, _ in members}
            label = (bare.pop() if len(bare) == 1 else "") or members[0][0]
            name = f"{label} ({len(members)} seeds)"
            found.append(SeedEntry(name, tuple(run for _, run in members)))
        else:  # The same seed twice is the same run again, not a second sample.
            found += [SeedEntry(label, (run,)) for label, run in members]
    return found


def settings(tree: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Return the values of a configuration by their dotted names."""
    found: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            found |= settings(value, f"{above}{key}.")
        else:
            found[f"{above}{key}"] = value
    return found
