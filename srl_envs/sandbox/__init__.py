"""Sandbox for untrusted Python: see Sandbox, and docs/environments/sandbox.md."""

from srl_envs.sandbox.guest.serialization import NotPlainError
from srl_envs.sandbox.records import (
    FEATURES,
    LEVELS,
    Call,
    Limits,
    Outcome,
    Protections,
    Run,
    SandboxError,
    Test,
    TestReport,
    Verdict,
)
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
