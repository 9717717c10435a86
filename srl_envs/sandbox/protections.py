"""Active protections, ordered in levels; a sandbox may require the least level."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

LEVELS = ("limits", "namespaces", "filtered", "strict")
"""From the weakest to the strongest; see docs/environments/sandbox.md for what each withstands.

"limits": a process of its own with limits, nothing that keeps it from files or the network.
"namespaces": it sees no file but the standard library's, no process and no network but its own; all
of the kernel's calls are open to it.
"filtered": no namespaces, but a filter of system calls keeps it from networks, processes and
signals, and Landlock from reading files, though not from asking for their sizes and times. Where
there is no Landlock either, it can open no file at all, and import only what was loaded before.
"strict": both namespaces and the filter.
"""
FEATURES = ("namespaces", "landlock", "seccomp")


@dataclass(frozen=True)
class Protections:
    """Protections beside the limits, as the kernel granted them at start."""

    namespaces: str
    """Which are the program's own; empty for none."""
    landlock: int
    """The version of Landlock's interface that is in force; 0 for none."""
    seccomp: bool
    """Whether system calls are filtered."""
    alone: bool = True
    """Whether a program can start no further process or thread: root can, at level "limits" where
    the interpreter lies where no other user may read it."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """What is not active, and why."""

    @property
    def level(self) -> str:
        """The level these make."""
        if self.seccomp:
            return "strict" if self.namespaces else "filtered"
        return "namespaces" if self.namespaces else "limits"

    @property
    def files(self) -> bool:
        """Whether a program can open any file: but for level "limits", only some of its own."""
        return not self.seccomp or bool(self.namespaces or self.landlock)

    def reaches(self, minimum: str) -> bool:
        """Whether the level is at least `minimum`."""
        return LEVELS.index(self.level) >= LEVELS.index(minimum)

    def __str__(self) -> str:
        parts = [
            f"own namespaces ({self.namespaces})" if self.namespaces else "",
            f"Landlock {self.landlock}" if self.landlock else "",
            "filtered system calls" if self.seccomp else "",
            "" if self.files else "no files at all",
            "limits on time, memory, files, output",
            "no further processes" if self.alone else "further processes (root has no limit)",
            "empty environment",
        ]
        active = "; ".join(part for part in parts if part)
        absent = "; ".join(f"no {name}: {why}" for name, why in self.refused.items())
        return f"level {self.level}: {active}" + (f"; {absent}" if absent else "")
