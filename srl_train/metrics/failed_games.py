"""Warning about games that failed in training, and what they failed of."""

from __future__ import annotations

from collections.abc import Sequence

from srl_agents.episode import Episode
from srl_envs.untrusted import printable
from srl_train.engine.state import Run

SHOWN = 300
"""Characters of an error that are told."""


def warn(run: Run, episodes: Sequence[Episode], left_out: int | None = None) -> list[str]:
    """Warn of the games in `episodes` that failed, once a run and kind of error; returns the new
    warnings, which `run.warnings` holds then.

    `left_out` games are not learned from: those that failed, and those of their groups. None where
    nothing is learned from any.
    """
    kinds: dict[str, list[str]] = {}
    for one in episodes:
        if one.failure is not None:
            kinds.setdefault(one.failure.partition(":")[0], []).append(one.failure)
    found: list[str] = []
    for kind, alike in kinds.items():
        first = " ".join(printable(alike[0], multiline=False).split())
        told = f"{len(alike)} of {len(episodes)} games failed"
        if left_out is not None:
            told += f" ({left_out} are not learned from: these, and those compared with them)"
        told += f"; the first: {first if len(first) <= SHOWN else first[:SHOWN] + ' ...'}"
        found += run.warn_once(f"failed: {kind}", told)
    return found
