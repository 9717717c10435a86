"""Sandbox for untrusted Python: see Sandbox, and docs/environments/sandbox.md."""

from __future__ import annotations

from srl_envs.sandbox.errors import NotPlainError, SandboxError
from srl_envs.sandbox.limits import Limits
from srl_envs.sandbox.protections import FEATURES, LEVELS, Protections
from srl_envs.sandbox.results import Call, Outcome, Run, Test, TestReport, Verdict
from srl_envs.sandbox.sandbox import Sandbox

__all__ = [
    "FEATURES",
    "LEVELS",
    "Call",
    "Limits",
    "NotPlainError",
    "Outcome",
    "Protections",
    "Run",
    "Sandbox",
    "SandboxError",
    "Test",
    "TestReport",
    "Verdict",
]
