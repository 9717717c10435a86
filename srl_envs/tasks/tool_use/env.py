"""Tool use: a question, several turns of tool calls, and one answer.

In every turn, an agent either calls tools or answers, and the first answer ends the episode. The
score is 1 for a right answer, after any calls. Before the answer, each needed call adds its share
of NEEDED to the score, once. Every turn after the first costs `attempt_penalty`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from typing import Any, ClassVar

import numpy as np

from srl_envs.errors import EnvConfigError
from srl_envs.tasks.base import Attempt, Grade, Problem, Task, TaskEnv, pick
from srl_envs.tasks.free_text_game import FreeTextView
from srl_envs.tasks.grading import same_value, words_of
from srl_envs.tasks.tool_use.builtin_tools import TOOLS, WITHOUT_SANDBOX, SearchProvider, Toolbox
from srl_envs.tasks.tool_use.generators import FAMILIES, CallStep
from srl_envs.tasks.tool_use.tools import (
    Tool,
    ToolCall,
    ToolResult,
    read_turn,
    response,
    tool_rules,
)
from srl_envs.text import TEXT_LENGTH, ParseFailure, Samples
from srl_envs.validation import (
    check_choice,
    entries_of,
    parallel_form,
    shown,
    some_of,
    whole_number,
)

NEEDED = 0.2  # part of the score that the needed calls share
TURNS = 8
HISTORY = 4  # default number of earlier turns in the observation
HISTORY_LENGTH = 600  # characters of the calls and of the results of an earlier turn
LAST_TURN = "This is your last turn: answer now."
SAMPLE_NUMBERS = 6  # numbers that sample answers use, the latest of a text
OF_A_KIND = 4  # sample answers of one tool
MARKS = {"+": "+", "plus": "+", "-": "-", "minus": "-", "*": "*", "times": "*"}

_SAMPLE_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?![\w])")
_SAMPLE_FILE = re.compile(r"(?<![\w-])[\w-]+\.txt\b")
_SAMPLE_NAME = re.compile(r"(?<!^)(?<![.?] )\b[A-Z][a-z]+\b")
_NUMBER = re.compile(r"(?<![\w.])(?:\d+(?:\.\d+)?|\.\d+)", re.ASCII)
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3})", re.ASCII)
_COMPUTING = ("calculator", "python")  # tools whose results depend on their arguments alone
_ECHOING = ("write_file", "list_files")  # tools whose results contain names chosen by the agent


@dataclass
class ToolSession:
    """Tool calls of one agent in one episode, and the needed calls.

    A successful call counts as the first missing needed call of its tool whose conditions hold.
    With `evidence`, the result must contain this line, and a read file must be the needed one. A
    calculation must then use only numbers of the question or of results of earlier turns. Unless it
    is the first needed call, at least one number must depend on a file, a search or a tool of the
    user. Reading a file that the agent wrote never counts, nor does a repeated call.
    """

    box: Toolbox
    steps: Sequence[CallStep]
    """Needed calls."""
    question: str
    made: set[int] = field(default_factory=set)
    """Indices in `steps` of the needed calls that were made."""
    answered: set[str] = field(default_factory=set)
    """Identities of the successful calls."""
    turns: list[tuple[tuple[ToolCall, ...], tuple[ToolResult, ...]]] = field(default_factory=list)
    """Calls and results of each turn so far."""
    _given: set[str] = field(init=False)
    """Numbers in the question or in results that the agent did not introduce."""
    _learned: set[str] = field(default_factory=set)
    """Numbers in results that cannot be computed from the question alone."""
    _written: set[str] = field(default_factory=set)
    """Files that the agent wrote."""

    def __post_init__(self) -> None:
        self._given = numbers_in(self.question)

    def turn(self, calls: tuple[ToolCall, ...]) -> tuple[ToolResult, ...]:
        """Make the calls in order, record them, and return results; raises as ToolRegistry.call."""
        given: set[str] = set()
        learned: set[str] = set()
        results = tuple(self.box.registry.call(call) for call in calls)
        for call, result in zip(calls, results, strict=True):
            # The JSON text is not searched, because an escaped sign would hide the next number.
            used = numbers_in(" ".join(map(str, call.arguments.values())))
            made_up, follows = used - self._given, bool(used & self._learned)
            repeated = call.identity in self.answered
            if not result.ok:
                continue
            self.answered.add(call.identity)
            if call.name == "write_file":
                self._written.add(str(call.arguments["path"]))
            if call.name == "read_file" and call.arguments["path"] in self._written:
                continue
            if not made_up and call.name not in _ECHOING:
                given |= numbers_in(result.content)
                if follows or call.name not in _COMPUTING:
                    learned |= numbers_in(result.content)
            if not repeated:
                self._mark(call, result, made_up, follows)
        # Added at the end, because the agent sees these numbers in the next turn only.
        self._given |= given
        self._learned |= learned
        self.turns.append((calls, results))
        return results

    def _mark(self, call: ToolCall, result: ToolResult, made_up: set[str], follows: bool) -> None:
        for index, step in enumerate(self.steps):
            if index in self.made or call.name != step.call.name:
                continue
            if step.evidence:
                guessed = call.name == "calculator" and (made_up or (index > 0 and not follows))
                other_file = call.name == "read_file" and call.arguments != step.call.arguments
                if guessed or other_file or step.evidence not in result.content.splitlines():
                    continue
            self.made.add(index)
            return


def numbers_in(text: str) -> set[str]:
    """Return the set of numbers in a text, as texts without signs and redundant zeros.

    1,000 counts as 1000, and as 1 and 0.
    """
    found = [*_NUMBER.findall(text), *_NUMBER.findall(_THOUSANDS.sub("", text))]
    numbers = set()
    for number in found:
        whole, _, places = number.partition(".")
        numbers.add(f"{whole.lstrip('0') or '0'}.{places.rstrip('0')}".rstrip("."))
    return numbers


class ToolUse(Task):
    """Task of tool_use_v0, with the arguments (but `settings`) and errors of `parallel_env`."""

    name: ClassVar[str] = "tool_use_v0"
    attempts = TURNS
    attempt_penalty = 0.01

    def __init__(
        self,
        families: Sequence[str] | str | None = None,
        *,
        tools: Sequence[str | Tool] = WITHOUT_SANDBOX,
        problems: Sequence[Problem] | None = None,
        search: SearchProvider | None = None,
        history: int = HISTORY,
    ) -> None:
        given = entries_of("tools", tools)
        self.own_tools = [tool for tool in given if isinstance(tool, Tool)]
        self.tools = [
            check_choice("tools", one, TOOLS) for one in given if one not in self.own_tools
        ]
        self.search = search
        self.history = whole_number("history", history, low=0)
        if problems is None:
            self.families = _families(families, self.tools, search)
        else:
            entries = entries_of("problems", problems)
            if families or not entries or not all(isinstance(each, Problem) for each in entries):
                raise EnvConfigError(
                    "problems must be at least one Problem, without families, got "
                    f"{shown(problems)} and {shown(families)}"
                )
            self.use(entries)
        self._registry = self._toolbox().registry

    def rules(self) -> str:
        return tool_rules(
            self._registry,
            "Answer the question with the help of tools:",
            "; what it gives is told in your next turn.",
        )

    def how_to_answer(self) -> str:
        return "When you know it, write 'Answer: ...' instead. Your first answer counts."

    def draw(self, rng: np.random.Generator, difficulty: int) -> Problem:
        return FAMILIES[pick(rng, self.families)].draw(rng, difficulty)

    def read(self, text: str) -> str | ParseFailure:
        turn = read_turn(text)
        return turn if isinstance(turn, ParseFailure) else text

    def begin(self, problem: Problem) -> ToolSession:
        box = self._toolbox(problem.data.get("files"))
        return ToolSession(box, problem.data.get("steps", ()), problem.question)

    def respond(self, attempt: Attempt, answer: str) -> Grade:
        session: ToolSession = attempt.memory
        turn = read_turn(answer)
        results = session.turn(turn) if isinstance(turn, tuple) else ()
        info = {"needed_calls_made": len(session.made)}
        if isinstance(turn, tuple):
            feedback = "\n".join(response(result, len(results)) for result in results)
            share = len(session.made) / max(1, len(session.steps))
            return Grade(NEEDED * share, False, feedback, False, info)
        grade = self.grade(attempt.problem, str(turn))
        score = 1.0 if grade.correct else attempt.best
        return Grade(score, grade.correct, "", True, info)

    def grade(self, problem: Problem, answer: str) -> Grade:
        units = words_of(problem.question) - {"fewer", "more"}  # These change the sign.
        right = same_value(str(problem.answer), answer, units)
        return Grade.right() if right else Grade.wrong()

    def question(self, attempt: Attempt) -> str:
        session: ToolSession = attempt.memory
        earlier = session.turns[:-1][-self.history :] if self.history else []
        lines = [attempt.problem.question]
        for calls, results in earlier:
            made = " ".join(call.written() for call in calls)
            gave = " ".join(word for result in results for word in result.content.split())
            lines.append(f"Earlier: {made[:HISTORY_LENGTH]} gave {gave[:HISTORY_LENGTH]}")
        return "\n".join(lines)

    def sample_answers(self, rng: np.random.Generator, attempt: Attempt, count: int) -> Samples:
        """Return about `count` valid calls and answers, without information on the truth.

        Calls and answers use numbers and names of the question and results. No call repeats an
        earlier one. There are up to OF_A_KIND of each of calculator, read_file, search, answers.
        """
        session: ToolSession = attempt.memory
        results = [result.content for _, made in session.turns for result in made if result.ok]
        known = {call.written() for calls, _ in session.turns for call in calls}
        texts = [attempt.problem.question, *results]
        kinds = [kind - known for kind in self._possible_calls("\n".join(texts))]
        numbers = _SAMPLE_NUMBER.findall(texts[-1])[-SAMPLE_NUMBERS:]
        things = numbers + _SAMPLE_NAME.findall(texts[-1])
        kinds.append({f"Answer: {thing}" for thing in things or ["0"]})
        kept = [sorted(kind) for kind in kinds if kind]
        size = max(1, min(OF_A_KIND, count // len(kept)))
        return tuple(str(text) for kind in kept for text in rng.permutation(kind)[:size])

    def _possible_calls(self, text: str) -> Iterator[set[str]]:
        if "calculator" in self.tools:
            numbers = _SAMPLE_NUMBER.findall(text)[-SAMPLE_NUMBERS:]
            marks = {mark for word, mark in MARKS.items() if f" {word} " in text} or {*"+-*"}
            sums = (f"{b} {mark} {a}" for a, b in combinations(numbers, 2) for mark in marks)
            yield {ToolCall("calculator", {"expression": each}).written() for each in sums}
        if "files" in self.tools:
            files = set(_SAMPLE_FILE.findall(text))
            yield {ToolCall("read_file", {"path": path}).written() for path in files}
        if "search" in self.tools:
            names = set(_SAMPLE_NAME.findall(text))
            yield {ToolCall("search", {"query": name}).written() for name in names}

    def _toolbox(self, files: Mapping[str, str] | None = None) -> Toolbox:
        return Toolbox(self.tools, files=files, search=self.search, tools=self.own_tools)


class ToolUseEnv(TaskEnv):
    """TaskEnv of the task ToolUse: an agent calls tools in its turns before it answers."""

    def make_view(self) -> FreeTextView:
        task = self.task
        turns = "one turn" if self.max_cycles == 1 else f"{self.max_cycles} turns"
        return FreeTextView(f"{task.rules()} {task.how_to_answer()} You have {turns}.", task.read)

    def prompt(self, agent: str) -> str:
        attempt = self.attempt(agent)
        last = [LAST_TURN] if attempt.turns == self.rounds - 1 and not attempt.solved else []
        rest = "".join(f"\n{part}" for part in (attempt.feedback, *last) if part)
        # The question is truncated, not the results and LAST_TURN at the end.
        return self.task.question(attempt)[: TEXT_LENGTH - len(rest)] + rest

    def sample_answers(self, agent: str, rng: np.random.Generator, count: int) -> Samples:
        samples = super().sample_answers(agent, rng, count) or ()
        if self.attempt(agent).turns < self.rounds - 1:
            return samples
        return tuple(text for text in samples if isinstance(read_turn(text), str))


def _families(
    families: Sequence[str] | str | None, tools: Sequence[str], search: SearchProvider | None
) -> tuple[str, ...]:
    possible = [name for name, family in FAMILIES.items() if set(family.tools) <= set(tools)]
    chosen = some_of("families", families, FAMILIES) if families is not None else tuple(possible)
    for name in set(chosen).difference(possible):
        needed = ", ".join(FAMILIES[name].tools)
        raise EnvConfigError(f"family {name!r} needs the tools {needed}, got {shown(tools)}")
    if not chosen:
        raise EnvConfigError(f"tools must suffice for a family or problems, got {shown(tools)}")
    if search is not None and any("search" in FAMILIES[name].tools for name in chosen):
        raise EnvConfigError(
            "search must be the shipped corpus for families that look things up: give other "
            "families, or problems"
        )
    return chosen


@partial(parallel_form, passes_on_to=TaskEnv)
def parallel_env(
    *,
    families: Sequence[str] | str | None = None,
    tools: Sequence[str | Tool] = WITHOUT_SANDBOX,
    problems: Sequence[Problem] | None = None,
    search: SearchProvider | None = None,
    history: int = HISTORY,
    **settings: Any,
) -> ToolUseEnv:
    """Return the environment as a PettingZoo ParallelEnv.

    Args:
        families: "calculate", "read", "look up", "read and calculate", "follow" or several; by
            default, all whose tools are in `tools`.
        tools: "calculator", "files", "search" (default: these), "python" (in the sandbox), Tools.
        problems: Problems from srl_envs.tasks.tool_use.generators.asked, instead of families.
            `split` is then "any" by default.
        search: Search provider instead of the shipped corpus, if no family needs "search".
        history: Number of turns before the last turn that an observation repeats.
        settings: Further keyword arguments of TaskEnv.

    Raises:
        EnvConfigError: An argument is invalid.
        ImportError: A library is missing.
        SandboxError: Python cannot be confined.
        ToolError: Raised by `reset`, if a file of a problem is invalid or too large.
    """
    task = ToolUse(families, tools=tools, problems=problems, search=search, history=history)
    return ToolUseEnv(task, **settings)
