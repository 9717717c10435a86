"""Records of the sandbox: limits, protections, calls, outcomes and verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from srl_envs.errors import EnvError
from srl_envs.sandbox.guest import serialization
from srl_envs.validation import number_between, whole_number

MIB = 2**20
LEVELS = ("limits", "filtered", "strict")
"""Levels of protection from the weakest to the strongest; see docs/environments/sandbox.md.

"limits": a separate process with resource limits; files and networks are accessible.
"filtered": a filter of system calls without networks, processes and signals, and Landlock for
files. Without Landlock, no file can be opened, and only preloaded modules can be imported.
"strict": the filter in namespaces, with no files but the standard library and a working folder.
"""
FEATURES = ("namespaces", "landlock", "seccomp")


class SandboxError(EnvError):
    """Error of a sandbox that cannot be started or used, or has less protection than required."""


@dataclass(frozen=True)
class Limits:
    """Resource limits of one run. Raises EnvConfigError if a limit is too low."""

    wall: float = 5.0
    """Seconds of wall time."""
    cpu: int = 4
    """Seconds of CPU time."""
    memory: int = 256 * MIB
    """Bytes of address space, including a few tens of MiB of the interpreter."""
    disk: int = 8 * MIB
    """Bytes of all files in the working folder. Without namespaces, no file can be written."""
    files: int = 64
    """Number of files in the working folder, and of open files."""
    output: int = 64 * 1024
    """Bytes of standard output and standard error together."""
    results: int = 256 * 1024
    """Bytes of all results of the calls, as serialized plain data."""

    def __post_init__(self) -> None:
        number_between("wall", self.wall, 0.01)
        whole_number("cpu", self.cpu, 1)
        whole_number("memory", self.memory, 64 * MIB)
        whole_number("disk", self.disk, 4096)
        whole_number("files", self.files, 16)
        whole_number("output", self.output, 0)
        whole_number("results", self.results, 1024)


@dataclass(frozen=True)
class Protections:
    """Protections in addition to the limits, as granted by the kernel."""

    namespaces: str
    """Names of the namespaces of the program, empty for none."""
    landlock: int
    """Active version of Landlock, 0 for none."""
    seccomp: bool
    """True if system calls are filtered."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Feature that could not be activated -> reason."""

    @property
    def level(self) -> str:
        """Level: "limits" without `seccomp`; with it, "strict" in `namespaces`, else "filtered"."""
        if not self.seccomp:
            return "limits"
        return "strict" if self.namespaces else "filtered"

    def __str__(self) -> str:
        missing = [f"no {name}: {reason}" for name, reason in self.refused.items()]
        return "; ".join([f"level {self.level}", *missing])


class SandboxVerdict(StrEnum):
    """Verdict on a run, a call or a test."""

    OK = "ok"
    """The run ended normally, the call returned, or the test passed."""
    WRONG = "wrong"
    """A call returned another value than expected, or a test raised AssertionError."""
    ERROR = "error"
    """An exception was raised, or the returned value is no plain data."""
    SYNTAX = "syntax"
    """The program is not valid Python."""
    TIMEOUT = "timeout"
    """The limit on wall time or CPU time was exceeded."""
    MEMORY = "memory"
    """The memory limit was exceeded."""
    OUTPUT = "output"
    """The limit on output or results was exceeded."""
    KILLED = "killed"
    """The run crashed, ended early, or its report is invalid."""
    NOT_RUN = "not run"
    """The run ended before this call."""


@dataclass(frozen=True)
class SandboxCall:
    """Call of a function of the program, with plain data as positional arguments."""

    function: str
    args: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(repr, self.args))})"


@dataclass(frozen=True)
class CallOutcome:
    """Outcome of one call."""

    verdict: SandboxVerdict
    value: Any = None
    """Returned value, if the verdict is OK."""
    error: str = ""
    """One line, possibly written by the program: untrusted."""


@dataclass(frozen=True)
class ProgramRun:
    """Outcome of one run of a program."""

    verdict: SandboxVerdict
    """OK if the program was loaded and every call ended, also with exceptions; else the reason."""
    outcomes: tuple[CallOutcome, ...] = ()
    """Outcomes of the calls, in order."""
    stdout: str = ""
    """Standard output and standard error, printable and cut at the limit."""
    error: str = ""
    """Description of the failure, empty for OK. Like `stdout`, it is untrusted."""


@dataclass(frozen=True)
class Test:
    """Call and its expected result, to which the result must be equal in value and type."""

    __test__ = False  # This is no test of pytest.

    call: SandboxCall
    expected: Any

    def verdict(self, outcome: CallOutcome) -> SandboxVerdict:
        """Return OK or WRONG for a call that returned a value, else the outcome's verdict.

        Args:
            outcome: Outcome of the call.
        """
        if outcome.verdict is not SandboxVerdict.OK:
            return outcome.verdict
        right = serialization.same(self.expected, outcome.value)
        return SandboxVerdict.OK if right else SandboxVerdict.WRONG


@dataclass(frozen=True)
class TestReport:
    """Outcomes of a program's tests."""

    __test__ = False

    run: ProgramRun
    verdicts: tuple[SandboxVerdict, ...]
    """Verdict of each test, in order."""

    @property
    def all_passed(self) -> bool:
        """True if all tests passed, also if there are none."""
        return all(verdict is SandboxVerdict.OK for verdict in self.verdicts)
