"""Runs that differ only in their seed, aggregated for a comparison."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from srl_train.metrics.run_folder import Run

_SEED = re.compile(r"[_\-./ ]*(seed)?[_\-= ]*\d+$")
"""How a folder's name ends that tells its seed: run_3, run-seed3, run/3."""


@dataclass(frozen=True)
class Entry:
    """What has one name in a comparison: a run, or several that differ only in their seed."""

    label: str
    runs: tuple[Run, ...]


def entries(runs: Sequence[tuple[str, Run]]) -> list[Entry]:
    """The labelled runs, those of equal configurations with different seeds as one entry."""
    alike: dict[str, list[tuple[str, Run]]] = {}
    for label, run in runs:
        # Without a configuration nobody knows what a run has in common with another.
        alike.setdefault(repr(_seedless(run.config)) if run.config else label, []).append(
            (label, run)
        )
    found: list[Entry] = []
    for members in alike.values():
        seeds = {run.seed for _, run in members}
        if len(seeds) == len(members) > 1:
            found.append(Entry(_shared(members), tuple(run for _, run in members)))
        else:  # a seed twice is the same run again, no second sample
            found += [Entry(label, (run,)) for label, run in members]
    return found


def settings(tree: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Dotted name -> value of everything in a configuration."""
    found: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            found |= settings(value, f"{above}{key}.")
        else:
            found[f"{above}{key}"] = value
    return found


def _seedless(config: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return sorted((key, value) for key, value in settings(config).items() if key != "seed")


def _shared(members: Sequence[tuple[str, Run]]) -> str:
    """The members' label without the seed at its end, or else the first one's, and their number."""
    bare = {_SEED.sub("", label) for label, _ in members}
    label = bare.pop() if len(bare) == 1 else ""
    return f"{label or members[0][0]} ({len(members)} seeds)"
