"""Own data as an environment: rows, a prompt, and a reward function for the model's full text."""

from __future__ import annotations

import asyncio
import functools
import math
import os
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import isawaitable, iscoroutinefunction
from typing import Any, ClassVar

import numpy as np

from srl_envs import loading
from srl_envs.errors import EnvConfigError, EnvError
from srl_envs.games.base import metadata_of
from srl_envs.games.maze_levels import SPLITS
from srl_envs.tasks.base import Problem, pick
from srl_envs.tasks.free_text_game import RENDER_MODES, FreeTextGame, FreeTextView, Outcome
from srl_envs.tasks.tool_use.tools import Tool, ToolRegistry, tool_rules, tool_turn
from srl_envs.text import TEXT_LENGTH, Samples
from srl_envs.validation import (
    LARGEST,
    MOST_PLAYERS,
    check_choice,
    entries_of,
    number_between,
    shown,
    true_or_false,
    whole_number,
)

Row = Mapping[str, Any]
Reward = Callable[[str, Row], float | Awaitable[float]]
RULES = "Answer the user's message."
MOST_TURNS = 16
"""Default number of turns of tasks with several turns."""


@dataclass
class _Conversation:
    index: int
    """Index of the row, from 0."""
    message: str
    """Text of the next observation."""
    completions: list[str] = field(default_factory=list)
    over: bool = False


class TextTask(FreeTextGame):
    """Environment of a dataset, with rewards from functions of the model's text.

    `TextTask(rows, prompt="Capital of {country}?", reward=score)` is a complete environment. In
    each episode, each of agent_0, agent_1, ... receives a row, drawn uniformly. The reward is given
    in the agent's last turn: the weighted sum of `function(completion, row)`, where `completion` is
    everything that the agent wrote in the episode, with an empty line between turns. Infos: `row`
    (its index, from 0) and, in the last turn, `rewards` (function name -> value without weight).
    Observation vector: turns so far / `max_cycles`, and 1 after termination (else 0). An agent
    terminates when no message for a further turn exists, else is truncated after `max_cycles`.

    Args:
        rows: Mappings, such as a list or a dataset; or a JSONL file, a folder written by
            `Dataset.save_to_disk`, or the name of a dataset on the Hugging Face hub (split
            "train"). Paths and names require the package datasets, except JSONL files.
        reward: Function (completion, row) -> float, which may be async; or several, as a list, or
            as a mapping from function to weight. A function may be named, 'module:function'.
        prompt: Format string with the fields of a row, or a function from row to text.
        rules: System message, not empty.
        respond: Function (completions, row) -> text of the next turn, or None to end the episode;
            or its name, 'module:function'. Not called after a turn with valid or malformed tool
            calls. By default, the first turn without tool calls is the last.
        tools: Functions that the model may call, with type hints and Google-style docstrings, their
            names, 'module:function', or Tools.
        split: "train", "test" (one prompt in five, by a hash) or "any".
        sample_answers: Texts from which the embedded model `tiny` learns the form of an answer; by
            default, the texts in the column `answer`.
        num_agents: Number of agents.
        same_row: True if all agents receive the same row.
        max_cycles: Maximum number of turns; by default 1, or MOST_TURNS with `respond` or `tools`.
        obs_mode, render_mode: As in FreeTextGame.

    Raises:
        EnvConfigError: An argument is invalid, no prompt is of the split, or the prompt of a row is
            blank, too long, or has a field that the row lacks.
        EnvError: Raised by `step`, if a reward is not finite or `respond` returns neither a text
            nor None. Exceptions of these functions are passed on.
        ImportError: A required package is missing.
        UntrustedError: An untrusted record names code or a path.
    """

    metadata: ClassVar[dict[str, Any]] = metadata_of("text_task_v0", render_modes=RENDER_MODES)

    def __init__(
        self,
        rows: Iterable[Row] | str | os.PathLike[str],
        *,
        reward: Reward | str | Sequence[Reward | str] | Mapping[Reward | str, float],
        prompt: str | Callable[[Row], str] = "{prompt}",
        rules: str = RULES,
        respond: Callable[[list[str], Row], str | None] | str | None = None,
        tools: Sequence[Callable[..., Any] | Tool | str] = (),
        split: str = "any",
        sample_answers: Sequence[str] = (),
        num_agents: int = 1,
        same_row: bool = False,
        max_cycles: int | None = None,
        obs_mode: str = "llm",
        render_mode: str | None = None,
    ) -> None:
        self.rows = _load(rows)
        self.prompts = [_prompt(prompt, row, number) for number, row in enumerate(self.rows)]
        check_choice("split", split, (*SPLITS, "any"))
        self._drawn = [
            number
            for number, text in enumerate(self.prompts)
            if split in ("any", Problem(text).split)
        ]
        if not self._drawn:
            raise EnvConfigError(
                f"rows must contain a prompt of the {split} split, got {len(self.rows)} rows"
            )
        self.rewards = _weighted(reward)
        # The rollout steps such environments of concurrent episodes at the same time.
        self.step_waits = any(iscoroutinefunction(score) for score, _ in self.rewards.values())
        self.respond = loading.code(respond, "respond") if isinstance(respond, str) else respond
        self.tools = ToolRegistry(map(_tool, entries_of("tools", tools)))
        if not isinstance(rules, str) or not rules.strip():
            raise EnvConfigError(f"rules must be a text, got {shown(rules)}")
        self.instructions = rules
        self.same_row = true_or_false("same_row", same_row)
        given = entries_of("sample_answers", sample_answers)
        answers = given or [row["answer"] for row in self.rows if "answer" in row]
        self._samples = tuple(text for text in dict.fromkeys(map(_text, answers)) if text.strip())
        self._conversations: dict[str, _Conversation] = {}
        turns = MOST_TURNS if respond or tools else 1
        agents = whole_number("num_agents", num_agents, 1, MOST_PLAYERS)
        super().__init__(
            [f"agent_{index}" for index in range(agents)],
            low=(0.0, 0.0),
            high=(1.0, 1.0),
            max_cycles=turns if max_cycles is None else max_cycles,
            obs_mode=obs_mode,
            render_mode=render_mode,
        )

    def make_view(self) -> FreeTextView:
        rules = self.instructions
        if self.tools.tools:
            rules = f"{rules}\n{tool_rules(self.tools)}"
        return FreeTextView(rules, parse_penalty=0.0)

    def begin(self, options: Mapping[str, Any]) -> None:
        agents = self.possible_agents
        chosen = [pick(self.np_random, self._drawn) for _ in agents]
        if self.same_row:
            chosen = chosen[:1] * len(agents)
        self._conversations = {
            agent: _Conversation(index, self.prompts[index])
            for agent, index in zip(agents, chosen, strict=True)
        }

    def first_info(self, agent: str) -> dict[str, Any]:
        return {"row": self._conversations[agent].index}

    def take(self, answers: Mapping[str, str], over: bool) -> dict[str, Outcome]:
        ended = []
        for agent, text in answers.items():
            talk = self._conversations[agent]
            talk.completions.append(text)
            message = self._next_message(talk)
            talk.over = message is None
            talk.message = "The episode is over." if message is None else _text(message)
            if talk.over or over:
                ended.append(agent)
        found = self._rewards_of([self._conversations[agent] for agent in ended])
        values = dict(zip(ended, found, strict=True))
        outcomes = {}
        for agent in answers:
            talk = self._conversations[agent]
            info: dict[str, Any] = {"row": talk.index}
            if agent in values:
                info["rewards"] = values[agent]
            total = sum(self.rewards[name][1] * one for name, one in values.get(agent, {}).items())
            outcomes[agent] = Outcome(total, talk.over, info)
        return outcomes

    def prompt(self, agent: str) -> str:
        return self._conversations[agent].message[:TEXT_LENGTH]

    def numbers(self, agent: str) -> tuple[float, float]:
        talk = self._conversations[agent]
        return min(len(talk.completions) / self.rounds, 1.0), float(talk.over)

    def sample_answers(self, agent: str, rng: np.random.Generator, count: int) -> Samples:
        """Return up to `count` different sample answers in random order, None if there are none.

        Args:
            agent: Not used.
            rng: Source of all randomness.
            count: Largest number of texts.
        """
        return tuple(rng.permutation(list(self._samples))[:count].tolist()) or None

    def _next_message(self, talk: _Conversation) -> str | None:
        if self.tools.tools:
            results = tool_turn(self.tools, talk.completions[-1])
            if results is not None:
                return results
        if self.respond is None:
            return None
        message = self.respond(list(talk.completions), self.rows[talk.index])
        if message is not None and not isinstance(message, str):
            raise EnvError(f"respond must return a text or None, got {shown(message)}")
        return message

    def _rewards_of(self, talks: Sequence[_Conversation]) -> list[dict[str, float]]:
        calls = [
            function("\n\n".join(talk.completions), self.rows[talk.index])
            for talk in talks
            for function, _ in self.rewards.values()
        ]
        values = iter(_awaited(calls))
        return [{name: _finite(name, next(values)) for name in self.rewards} for _ in talks]


def _load(rows: Iterable[Row] | str | os.PathLike[str]) -> list[Row]:
    if isinstance(rows, str | os.PathLike):
        path = loading.place(rows, "rows")
        if path.is_file() or path.suffix in (".jsonl", ".json"):
            found = loading.read_rows(path, "rows", lambda row, number: _row(row))
        else:
            with loading.needed_by("a dataset"):
                import datasets
            try:
                if path.is_dir():
                    found = [_row(row) for row in datasets.load_from_disk(path)]
                else:
                    found = list(datasets.load_dataset(os.fspath(rows), split="train"))
            except (OSError, ValueError) as error:
                raise EnvConfigError(f"cannot read the rows of {rows}: {error}") from error
    elif isinstance(rows, Iterable):
        found = [_row(row) for row in rows]
    else:
        raise EnvConfigError(f"rows must be a list of rows or a name, got {shown(rows)}")
    if not found:
        raise EnvConfigError("rows must contain at least one row, got none")
    return found


def _text(value: object) -> str:
    return str(value).encode("utf-8", "backslashreplace").decode()


def _row(row: Any) -> Row:
    if not isinstance(row, Mapping):
        raise EnvConfigError(f"a row must be a mapping of names to values, got {shown(row):.80}")
    return row


def _prompt(prompt: str | Callable[[Row], str], row: Row, number: int) -> str:
    try:
        text = prompt.format_map(row) if isinstance(prompt, str) else prompt(row)
    except (KeyError, ValueError, IndexError, AttributeError, TypeError) as error:
        if callable(prompt):
            raise
        raise EnvConfigError(
            f"prompt {prompt!r} cannot be filled in with row {number}, which has "
            f"{', '.join(map(str, row))}: {error!r}"
        ) from error
    if not isinstance(text, str) or not text.strip() or len(text) > TEXT_LENGTH:
        raise EnvConfigError(
            f"the prompt of row {number} must be a text of 1 to {TEXT_LENGTH} characters, got "
            f"{shown(text):.80}"
        )
    return _text(text)


def _tool(tool: Callable[..., Any] | Tool | str) -> Tool:
    if isinstance(tool, str):
        tool = loading.code(tool, "tools")
    if not isinstance(tool, Tool) and (not callable(tool) or iscoroutinefunction(tool)):
        raise EnvConfigError(f"a tool must be a function that is not async, got {shown(tool)}")
    return tool if isinstance(tool, Tool) else Tool.of(tool)


def _weighted(reward: Any) -> dict[str, tuple[Reward, float]]:
    if callable(reward) or isinstance(reward, str):
        reward = {reward: 1.0}
    elif not isinstance(reward, Mapping):
        reward = dict.fromkeys(entries_of("reward", reward), 1.0)
    found: dict[str, tuple[Reward, float]] = {}
    for given, weight in reward.items():
        function = loading.code(given, "reward") if isinstance(given, str) else given
        if not callable(function):
            raise EnvConfigError(
                f"reward must be a function (completion, row) -> float, got {shown(function)}"
            )
        name = getattr(function, "__name__", type(function).__name__)
        if name in found:
            raise EnvConfigError(f"reward functions must have different names, got {name!r} twice")
        found[name] = function, number_between(f"the weight of {name}", weight, -LARGEST)
    if not found:
        raise EnvConfigError("reward must contain at least one function, got none")
    return found


def _awaited(values: Sequence[Any]) -> list[Any]:
    if not any(map(isawaitable, values)):
        return list(values)

    async def gather() -> list[Any]:
        results = iter(await asyncio.gather(*filter(isawaitable, values)))
        return [next(results) if isawaitable(value) else value for value in values]

    return asyncio.run_coroutine_threadsafe(gather(), _loop(os.getpid())).result()


@functools.cache
def _loop(process: int) -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="rewards", daemon=True).start()
    return loop


def _finite(name: str, value: Any) -> float:
    try:
        number = float("" if isinstance(value, str) else value)
    except (OverflowError, TypeError, ValueError) as error:
        raise EnvError(f"reward {name} must return a number, got {shown(value)}") from error
    if not math.isfinite(number):
        raise EnvError(f"reward {name} must return a finite number, got {number}")
    return number
