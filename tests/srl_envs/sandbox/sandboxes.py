"""A sandbox for tests: of the default level or, where that is refused, a weaker one."""

from __future__ import annotations

from typing import Any

from srl_envs.sandbox import Limits, Sandbox, SandboxError


def any_sandbox(limits: Limits | None = None, **parameters: Any) -> Sandbox:
    """For honest programs only: it runs at whatever level this machine has."""
    try:
        return Sandbox(limits, **parameters)
    except SandboxError:
        return Sandbox(limits, minimum="limits", **parameters)
