"""Tool session of one agent in one episode: its calls, and which were needed.

A needed call counts when it is made on what the agent was given: a file as it was, numbers that
the question or a result of an earlier turn told. What follows from results must be made of at least
one number that came from files, searches or tools of one's own. So neither reading a file that one
wrote oneself, nor trying numbers until one is right, passes for work, whether they are brought up
as they stand or computed from those of the question.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from srl_envs.tasks.tool_use.generators import Step
from srl_envs.tasks.tool_use.parsing import ToolCall
from srl_envs.tasks.tool_use.registry import ToolResult
from srl_envs.tasks.tool_use.toolbox import Toolbox

_NUMBER = re.compile(r"(?<![\w.])(?:\d+(?:\.\d+)?|\.\d+)", re.ASCII)
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3})", re.ASCII)
_COMPUTE = ("calculator", "python")  # tools that tell nothing but what is made of their arguments
_FOLLOW = ("calculator", "write_file")  # tools whose use follows from the results before
_TELL_WHAT_IS_SAID = ("write_file", "list_files")  # names that the agent may have chosen itself


@dataclass
class Session:
    """One agent's calls in one episode."""

    box: Toolbox
    steps: Sequence[Step]
    question: str
    met: set[int] = field(default_factory=set)
    """Which of `steps` were made."""
    answered: set[str] = field(default_factory=set)
    """Calls that gave a result: whoever makes one of them again learns and earns nothing."""
    turns: list[tuple[tuple[ToolCall, ...], tuple[ToolResult, ...]]] = field(default_factory=list)
    calls: int = 0
    failed: int = 0
    repeated: int = 0
    _given: set[str] = field(init=False)
    """Numbers that the agent was told, and did not bring up itself."""
    _learnt: set[str] = field(default_factory=set)
    """Those of them that a result told, and that are not computed from the question alone."""
    _written: set[str] = field(default_factory=set)
    """Files that the agent wrote."""

    def __post_init__(self) -> None:
        self._given = numbers_in(self.question)

    @property
    def share(self) -> float:
        """The share of the needed calls that was made."""
        return len(self.met) / len(self.steps) if self.steps else 0.0

    def turn(self, calls: tuple[ToolCall, ...]) -> tuple[ToolResult, ...]:
        """Make the calls of a turn, and count them."""
        results: list[ToolResult] = []
        told: set[str] = set()
        learnt: set[str] = set()
        for call in calls:
            fresh = call.identity not in self.answered
            # As they stand: escaped, a line break or a typeset sign would hide the number after it.
            used = numbers_in(" ".join(map(str, call.arguments.values())))
            made_up, follows = used - self._given, bool(used & self._learnt)
            result = self._made(call)
            results.append(result)
            if not result.ok or self._reads_its_own(call):
                continue
            if not made_up and call.name not in _TELL_WHAT_IS_SAID:
                told |= numbers_in(result.content)
                if follows or call.name not in _COMPUTE:
                    learnt |= numbers_in(result.content)
            if fresh:
                self._meet(call, result, made_up, follows)
        self._given |= told  # only now: whoever calls in the same turn has not seen it
        self._learnt |= learnt
        self.turns.append((calls, tuple(results)))
        return tuple(results)

    def _made(self, call: ToolCall) -> ToolResult:
        result = self.box.registry.call(call)
        self.calls += 1
        self.failed += not result.ok
        self.repeated += call.identity in self.answered
        if result.ok:
            self.answered.add(call.identity)
            if call.name == "write_file":
                self._written.add(str(call.arguments["path"]))
        return result

    def _reads_its_own(self, call: ToolCall) -> bool:
        return call.name == "read_file" and call.arguments["path"] in self._written

    def _meet(self, call: ToolCall, result: ToolResult, made_up: set[str], follows: bool) -> None:
        """Count the first step that a call meets, if it is one."""
        for number, step in enumerate(self.steps):
            if number and step.evidence and call.name in _FOLLOW and not follows:
                continue
            if number not in self.met and step.met(call, result, made_up):
                self.met.add(number)
                return


def numbers_in(text: str) -> set[str]:
    """The numbers that a text writes, 1,000 both ways, without their signs and idle zeros."""
    found = [*_NUMBER.findall(text), *_NUMBER.findall(_THOUSANDS.sub("", text))]
    return {_without_idle_zeros(number) for number in found}


def _without_idle_zeros(number: str) -> str:
    whole, _, places = number.partition(".")
    return f"{whole.lstrip('0') or '0'}.{places.rstrip('0')}".rstrip(".")
