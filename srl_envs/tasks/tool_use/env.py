"""Tool use: questions that need tools, several turns of calls, and one answer.

In every turn an agent either calls tools or answers, and its first answer ends the episode. The
score is 1 for a right answer. Before that, each call that the problem needs and that was not made
before adds its share of NEEDED to the score, once: calls that are repeated, fail or are not needed
earn nothing, and a right answer is worth the same whatever was called on the way. Every turn after
the first costs `attempt_penalty`.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import combinations
from typing import Any, ClassVar

import numpy as np

from srl_envs.errors import EnvConfigError
from srl_envs.loading import references
from srl_envs.loading.untrusted import framed
from srl_envs.tasks.base import Attempt, Grade, Problem, Task, TaskEnv, TaskView
from srl_envs.tasks.grading.math_answers import same_value, words_of
from srl_envs.tasks.problem import pick
from srl_envs.tasks.tool_use.errors import ToolError
from srl_envs.tasks.tool_use.file_store import FileStore, JailedFolder, MemoryFiles, new_folder
from srl_envs.tasks.tool_use.generators import FAMILIES
from srl_envs.tasks.tool_use.parsing import CLOSE, OPEN, ToolCall, read_turn
from srl_envs.tasks.tool_use.registry import Tool, ToolResult
from srl_envs.tasks.tool_use.search import SearchProvider
from srl_envs.tasks.tool_use.session import Session
from srl_envs.tasks.tool_use.toolbox import TOOLS, WITHOUT_SANDBOX, Toolbox
from srl_envs.text.spaces import TEXT_LENGTH
from srl_envs.text.view import ParseFailure, Samples
from srl_envs.validation import (
    check_choice,
    entries_of,
    parallel_form,
    shown,
    some_of,
    whole_number,
)

NEEDED = 0.2  # of the score, shared by the calls that the problem needs
TURNS = 8
HISTORY = 4  # earlier turns that are told again
HISTORY_LENGTH = 600  # characters of each
LAST_TURN = "This is your last turn: answer now."
NUMBERS_IN_SIGHT = 6
OF_A_KIND = 4  # sample answers
MARKS = {"+": "+", "plus": "+", "-": "-", "minus": "-", "*": "*", "times": "*"}

_NUMBER_IN_SIGHT = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?![\w])")
_FILE_IN_SIGHT = re.compile(r"(?<![\w-])[\w-]+\.txt\b")
_NAME_IN_SIGHT = re.compile(r"(?<!^)(?<![.?] )\b[A-Z][a-z]+\b")


class ToolUse(Task):
    """The task; see `parallel_env` for the arguments."""

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
        workspace: str | None = None,
        history: int = HISTORY,
    ) -> None:
        given = entries_of("tools", tools)
        self.tools = [
            check_choice("tools", tool, TOOLS) for tool in given if not isinstance(tool, Tool)
        ]
        self.own_tools = [tool for tool in given if isinstance(tool, Tool)]
        self.search, self.workspace = search, workspace
        self.history = whole_number("history", history, low=0)
        self.problems: tuple[Problem, ...] | None = (
            None if problems is None else entries_of("problems", problems)
        )
        if self.problems is not None:
            if families is not None or not self.problems:
                raise EnvConfigError("give problems of your own (at least one) or families")
            if wrong := [one for one in self.problems if not isinstance(one, Problem)]:
                raise EnvConfigError(f"problems must be Problem objects, got {shown(wrong[0])}")
            levels = [problem.difficulty for problem in self.problems]
            self.difficulties, self.split = (min(levels), max(levels)), "any"
        self.families = _families(families, self.tools)
        if self.problems is None and not self.families:
            raise EnvConfigError(
                f"tools is {shown(tools)}, and no family can do with these: give more tools, or "
                "problems of your own"
            )
        if (
            self.problems is None
            and search is not None
            and any("search" in FAMILIES[family].tools for family in self.families)
        ):
            raise EnvConfigError(
                "the families that look things up know the shipped corpus only: with a search of "
                "your own give families without it, or problems"
            )
        if workspace is not None:
            JailedFolder(references.place(workspace, "workspace"))  # says so where that cannot be
        self._schemas = self._toolbox(MemoryFiles()).registry.schemas()

    def rules(self) -> str:
        """The instructions, the tools' schemas, and how to call them."""
        listed = "\n".join(json.dumps(schema) for schema in self._schemas)
        example = '{"name": <tool>, "arguments": {<name>: <value>}}'
        return (
            f"Answer the question with the help of tools:\n<tools>\n{listed}\n</tools>\n"
            f"To call one, write {OPEN}{example}{CLOSE} and nothing else; what it gives is told in "
            "your next turn."
        )

    def how_to_answer(self) -> str:
        """The form of the answer."""
        return "When you know it, write 'Answer: ...' instead. Your first answer counts."

    def draw(self, rng: np.random.Generator, difficulty: int) -> Problem:
        """A problem of one of the families, or one of those that were given."""
        if self.problems is not None:
            fitting = [one for one in self.problems if one.difficulty == difficulty]
            return pick(rng, fitting or self.problems)
        return FAMILIES[pick(rng, self.families)].draw(rng, difficulty)

    def read(self, text: str) -> str | ParseFailure:
        """The text itself where there are calls or an answer in it."""
        said = read_turn(text)
        return said if isinstance(said, ParseFailure) else text

    def begin(self, problem: Problem) -> Session:
        """Tools of its own, on files of its own."""
        files: FileStore = MemoryFiles()
        if self.workspace is not None:
            files = new_folder(self.workspace)
        for path, content in problem.data.get("files", {}).items():
            files.write(path, content)
        steps = problem.data.get("steps", ())
        return Session(self._toolbox(files), steps, problem.question)

    def respond(self, attempt: Attempt, answer: str) -> Grade:
        """Make the calls, or grade the answer."""
        session: Session = attempt.memory
        said = read_turn(answer)
        if isinstance(said, tuple):
            results = session.turn(said)
            told = "\n".join(_response(result, len(results)) for result in results)
            return Grade(NEEDED * session.share, False, told, False, _counts(session))
        grade = self.grade(attempt.problem, str(said))
        right = grade.correct and self._is_written(attempt)
        score = 1.0 if right else attempt.best
        return Grade(score, right, "", True, _counts(session))

    def grade(self, problem: Problem, answer: str) -> Grade:
        """Right or not: numbers by value, with words of the question as units, else text."""
        units = words_of(problem.question) - {"fewer", "more"}  # which turn a number round
        right = same_value(str(problem.answer), answer, units)
        return Grade.right() if right else Grade.wrong()

    def end(self, attempt: Attempt) -> None:
        """Remove the agent's folder; what it did is still told."""
        files: FileStore = attempt.memory.box.files
        if isinstance(files, JailedFolder):
            shutil.rmtree(files.folder)

    def question(self, attempt: Attempt) -> str:
        """The question, and what was called before the last turn."""
        session: Session = attempt.memory
        earlier = session.turns[:-1][-self.history :] if self.history else []
        lines = [attempt.problem.question]
        for calls, results in earlier:
            said = " ".join(call.written() for call in calls)
            told = " ".join(word for result in results for word in result.content.split())
            lines.append(f"Earlier: {said[:HISTORY_LENGTH]} gave {told[:HISTORY_LENGTH]}")
        return "\n".join(lines)

    def sample_answers(self, rng: np.random.Generator, attempt: Attempt, count: int) -> Samples:
        """Calls and answers in the right form, made from what is in sight, whether it helps or not.

        Calls are made from the numbers, names, files and operations that the question and the
        results so far mention, the later number of two first, and no call is made twice. Answers
        name something in the last result, or in the question before there is one. Up to OF_A_KIND
        for each tool, and as many answers.
        """
        session: Session = attempt.memory
        results = [result.content for _, made in session.turns for result in made if result.ok]
        known = {call.written() for calls, _ in session.turns for call in calls}
        sight = [attempt.problem.question, *results]
        kinds = [kind - known for kind in self._in_sight("\n".join(sight))]
        kinds.append({f"Answer: {thing}" for thing in _things(sight[-1]) or ["0"]})
        kept = [sorted(kind) for kind in kinds if kind]
        size = max(1, min(OF_A_KIND, count // len(kept)))
        return tuple(str(text) for kind in kept for text in rng.permutation(kind)[:size])

    def _in_sight(self, sight: str) -> Iterator[set[str]]:
        """For each tool the calls that there is something for."""
        if "calculator" in self.tools:
            numbers = _NUMBER_IN_SIGHT.findall(sight)[-NUMBERS_IN_SIGHT:]
            marks = {mark for word, mark in MARKS.items() if f" {word} " in sight} or {*"+-*"}
            sums = (f"{b} {mark} {a}" for a, b in combinations(numbers, 2) for mark in marks)
            yield {ToolCall("calculator", {"expression": text}).written() for text in sums}
        if "files" in self.tools:
            files = set(_FILE_IN_SIGHT.findall(sight))
            yield {ToolCall("read_file", {"path": path}).written() for path in files}
        if "search" in self.tools:
            names = set(_NAME_IN_SIGHT.findall(sight))
            yield {ToolCall("search", {"query": name}).written() for name in names}

    def _toolbox(self, files: FileStore) -> Toolbox:
        return Toolbox(self.tools, files=files, search=self.search, tools=self.own_tools)

    def _is_written(self, attempt: Attempt) -> bool:
        """Whether the files hold what the problem wants written."""
        files: FileStore = attempt.memory.box.files
        for path, content in attempt.problem.data.get("written", {}).items():
            try:
                found = files.read(path)
            except ToolError:
                return False
            if not same_value(content, found):
                return False
        return True


class ToolUseEnv(TaskEnv):
    """A TaskEnv whose turns are calls, or the answer."""

    def make_view(self) -> TaskView:
        """The view for episodes of `self.max_cycles` turns."""
        task = self.task
        turns = "one turn" if self.max_cycles == 1 else f"{self.max_cycles} turns"
        return TaskView(f"{task.rules()} {task.how_to_answer()} You have {turns}.", task=task)

    def prompt(self, agent: str) -> str:
        """The question, what was called before, and what the last turn brought."""
        attempt = self.attempt(agent)
        last = [LAST_TURN] if attempt.turns == self.rounds - 1 and not attempt.solved else []
        rest = "".join(f"\n{part}" for part in (attempt.feedback, *last) if part)
        # What is cut is not the end: neither the frame of a result nor the word of the last turn.
        return self.task.question(attempt)[: TEXT_LENGTH - len(rest)] + rest

    def sample_answers(self, agent: str, rng: np.random.Generator, count: int) -> Samples:
        """The task's; in the last turn answers only, since nothing tells what a call gave."""
        samples = super().sample_answers(agent, rng, count) or ()
        if self.attempt(agent).turns < self.rounds - 1:
            return samples
        return tuple(text for text in samples if isinstance(read_turn(text), str))


def _things(text: str) -> list[str]:
    """The numbers and names in a text."""
    return _NUMBER_IN_SIGHT.findall(text)[-NUMBERS_IN_SIGHT:] + _NAME_IN_SIGHT.findall(text)


def _response(result: ToolResult, among: int) -> str:
    content = result.content[: 3 * TEXT_LENGTH // 4 // among]
    said = content if result.ok else f"Error: {content}"
    return framed("tool_response", said)


def _counts(session: Session) -> dict[str, Any]:
    return {
        "calls": session.calls,
        "failed_calls": session.failed,
        "repeated_calls": session.repeated,
        "needed_calls_made": len(session.met),
    }


def _families(families: Sequence[str] | str | None, tools: Sequence[str]) -> tuple[str, ...]:
    if families is None:
        return tuple(name for name, one in FAMILIES.items() if set(one.tools) <= set(tools))
    chosen = some_of("families", families, FAMILIES)
    for family in chosen:
        missing = set(FAMILIES[family].tools) - set(tools)
        if missing:
            raise EnvConfigError(
                f"family {family!r} needs the tools {', '.join(sorted(missing))}: add them to tools"
            )
    return chosen


@partial(parallel_form, passes_on_to=TaskEnv)
def parallel_env(
    *,
    families: Sequence[str] | str | None = None,
    tools: Sequence[str | Tool] = WITHOUT_SANDBOX,
    problems: Sequence[Problem] | None = None,
    search: SearchProvider | None = None,
    workspace: str | None = None,
    history: int = HISTORY,
    **settings: Any,
) -> ToolUseEnv:
    """The environment, as a PettingZoo ParallelEnv; see TaskEnv for what is not told here.

    `tools` are names of srl_envs.tasks.tool_use.toolbox.TOOLS ("python" needs the sandbox) and
    Tools of one's own. `families` are one or several of
    srl_envs.tasks.tool_use.generators.FAMILIES, by default all that those tools suffice for;
    `problems` (made by srl_envs.tasks.tool_use.generators.asked) stand in their place. `search` is
    asked instead of the shipped corpus. Files are in memory; with `workspace`, an existing folder,
    every agent has a jailed folder of its own in it for the episode. `history` earlier turns are
    told again. Raises EnvConfigError for wrong arguments.
    """
    task = ToolUse(
        families,
        tools=tools,
        problems=problems,
        search=search,
        workspace=workspace,
        history=history,
    )
    return ToolUseEnv(task, **settings)
