"""Records of runs and tests: calls, outcomes, verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from srl_envs.sandbox.guest import serialization


class Verdict(StrEnum):
    """Verdict on a run, a call or a test."""

    OK = "ok"
    """It ended by itself; a test passed."""
    WRONG = "wrong"
    """A call returned something else than was expected."""
    ERROR = "error"
    """An exception was raised, or what was returned is no plain data."""
    SYNTAX = "syntax"
    """The program is not Python."""
    TIMEOUT = "timeout"
    """Its time was up."""
    MEMORY = "memory"
    """It asked for more memory than it may have."""
    OUTPUT = "output"
    """It wrote, or returned, more than it may."""
    KILLED = "killed"
    """It crashed, ended in the middle of its work, or reported nonsense."""
    NOT_RUN = "not run"
    """It was over before this call's turn came."""


@dataclass(frozen=True)
class Call:
    """A function that the program defines, and plain data to call it with."""

    function: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        given = [repr(part) for part in self.args]
        given += [f"{name}={value!r}" for name, value in self.kwargs.items()]
        return f"{self.function}({', '.join(given)})"


@dataclass(frozen=True)
class Outcome:
    """Outcome of one call."""

    verdict: Verdict
    value: Any = None
    """What was returned, where the verdict is OK."""
    error: str = ""
    """One line of the program's own words, or ours; to be shown, never to be trusted."""


@dataclass(frozen=True)
class Run:
    """Outcome of one run."""

    verdict: Verdict
    """OK where the program was loaded and every call ended, be it with an exception."""
    outcomes: tuple[Outcome, ...] = ()
    """One for each call."""
    stdout: str = ""
    """Standard output and standard error, as far as the limit allows."""
    error: str = ""
    wall: float = 0.0
    """Seconds."""
    cpu: float = 0.0
    """Seconds."""


@dataclass(frozen=True)
class Test:
    """A call and the plain data that it must return, of the very same types."""

    __test__ = False  # for pytest, which takes every Test... for one of its own

    call: Call
    expected: Any
    tolerance: float | None = None
    """For floats; absolute, and relative for those above 1."""

    def verdict(self, outcome: Outcome) -> Verdict:
        """OK or WRONG for a call that returned; otherwise the outcome's own."""
        if outcome.verdict is not Verdict.OK:
            return outcome.verdict
        right = serialization.same(self.expected, outcome.value, self.tolerance)
        return Verdict.OK if right else Verdict.WRONG


@dataclass(frozen=True)
class TestReport:
    """Outcomes of a program's tests."""

    __test__ = False

    run: Run
    verdicts: tuple[Verdict, ...]
    """One for each test."""

    @property
    def passed(self) -> int:
        """The number of tests that passed."""
        return sum(verdict is Verdict.OK for verdict in self.verdicts)

    @property
    def all_passed(self) -> bool:
        """Whether all did."""
        return self.passed == len(self.verdicts)
