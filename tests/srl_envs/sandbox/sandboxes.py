"""Sandbox for tests, of the default level or a weaker one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from srl_envs.sandbox import Limits, Sandbox, SandboxError


def any_sandbox(limits: Limits | None = None, **parameters: Any) -> Sandbox:
    """Return a sandbox of the best available level, for harmless programs only."""
    try:
        return Sandbox(limits, **parameters)
    except SandboxError:
        return Sandbox(limits, minimum="limits", **parameters)


def children_of(process: int) -> list[int]:
    """Return the ids of the living children of a process."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            state, parent = Path("/proc", name, "stat").read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue  # The process has ended.
        if int(parent) == process and state not in "ZX":
            found.append(int(name))
    return found
