"""Sandbox for untrusted Python: see Sandbox, and docs/environments/sandbox.md."""

from srl_envs.sandbox.guest.serialization import NotPlainError
from srl_envs.sandbox.records import (
    FEATURES,
    LEVELS,
    CallOutcome,
    Limits,
    ProgramRun,
    Protections,
    SandboxCall,
    SandboxError,
    SandboxVerdict,
    Test,
    TestReport,
)
from srl_envs.sandbox.sandbox import Sandbox, shared_sandbox

__all__ = [
    "FEATURES",
    "LEVELS",
    "CallOutcome",
    "Limits",
    "NotPlainError",
    "ProgramRun",
    "Protections",
    "Sandbox",
    "SandboxCall",
    "SandboxError",
    "SandboxVerdict",
    "Test",
    "TestReport",
    "shared_sandbox",
]
