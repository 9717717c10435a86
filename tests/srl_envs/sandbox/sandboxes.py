"""A sandbox for tests: of the default level or, where that is refused, a weaker one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from srl_envs.sandbox import Limits, Sandbox, SandboxError


def any_sandbox(limits: Limits | None = None, **parameters: Any) -> Sandbox:
    """For honest programs only: it runs at whatever level this machine has."""
    try:
        return Sandbox(limits, **parameters)
    except SandboxError:
        return Sandbox(limits, minimum="limits", **parameters)


def children_of(process: int) -> list[int]:
    """The living children of a process; not every kernel lists them."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            state, parent = Path("/proc", name, "stat").read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue  # gone by now
        if int(parent) == process and state not in "ZX":
            found.append(int(name))
    return found
