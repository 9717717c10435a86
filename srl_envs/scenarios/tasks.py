"""Scenarios of tasks and debates: which problems, and how many attempts.

Nobody sits in their background: a scripted policy cannot write. What is held out are problems:
those of the test split, which training refuses.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from srl_envs.scenarios.scenario import Scenario

ONCE = {"max_cycles": 1}
EASY, MIDDLE, HARD = {"difficulty": 1}, {"difficulty": (1, 3)}, {"difficulty": (4, 5)}
# As examples/configs/tool_use.yaml trains.
TWO_TOOLS: dict[str, Any] = {
    "families": "read and calculate", "tools": ("calculator", "files"), "difficulty": 1,
    "history": 0, "max_cycles": 3,
}  # fmt: skip


def all_of_them() -> Sequence[Scenario]:
    """In the registry's order."""
    return (*_mathematics(), *_programming(), *_tool_use(), *_debates())


def _task(
    game: str,
    special: str,
    description: str,
    options: dict[str, Any],
    *,
    unseen: bool = False,
    focal: tuple[str, ...] = ("agent_0",),
) -> Scenario:
    return Scenario(
        f"{game}.{special}", game, description, focal,
        options={**options, **({"split": "test"} if unseen else {})},
        held_out_options=("split",) if unseen else (),
    )  # fmt: skip


def _mathematics() -> Sequence[Scenario]:
    game = "math_v0"
    digits = {"families": "arithmetic", **EASY, **ONCE}
    return (
        _task(game, "one_digit", "one-digit sums of those that training has, one attempt", digits),
        _task(game, "one_digit_unseen", "one-digit sums that training never has", digits,
              unseen=True),
        _task(game, "arithmetic_unseen", "arithmetic of all difficulties, one attempt",
              {"families": "arithmetic", **ONCE}, unseen=True),
        _task(game, "algebra_unseen", "algebra of all difficulties, one attempt",
              {"families": "algebra", **ONCE}, unseen=True),
        _task(game, "word_problems_unseen", "word problems of all difficulties, one attempt",
              {"families": "word problems", **ONCE}, unseen=True),
        _task(game, "multi_step_unseen", "problems of two to six steps, one attempt",
              {"families": "multi-step", **ONCE}, unseen=True),
        _task(game, "all", "all families and difficulties, of the problems that training has",
              ONCE),
        _task(game, "all_unseen", "all families and difficulties, one attempt", ONCE, unseen=True),
        _task(game, "three_attempts_unseen",
              "all families and difficulties; whoever was wrong is told so, twice at most",
              {"max_cycles": 3}, unseen=True),
    )  # fmt: skip


def _programming() -> Sequence[Scenario]:
    game = "code_v0"
    line = {"families": "returns", **EASY, **ONCE}
    return (
        _task(game, "one_line", "one-line functions of those that training has, one attempt", line),
        _task(game, "one_line_unseen", "one-line functions that training never has", line,
              unseen=True),
        _task(game, "easy_unseen", "functions of difficulty 1 to 3, one attempt",
              {**MIDDLE, **ONCE}, unseen=True),
        _task(game, "hard_unseen", "functions of difficulty 4 and 5, one attempt",
              {**HARD, **ONCE}, unseen=True),
        _task(game, "all", "functions of all difficulties, of the problems that training has",
              ONCE),
        _task(game, "repair_unseen",
              "functions of all difficulties; a test that fails is told, twice at most",
              {"max_cycles": 3}, unseen=True),
    )  # fmt: skip


def _tool_use() -> Sequence[Scenario]:
    game = "tool_use_v0"
    return (
        _task(game, "two_tools", "a number in a file and a sum, of problems that training has",
              TWO_TOOLS),
        _task(game, "two_tools_unseen", "the same, of problems that training never has",
              TWO_TOOLS, unseen=True),
        _task(game, "one_tool_unseen", "questions that one tool answers",
              {"families": ("calculate", "read", "look up")}, unseen=True),
        _task(game, "nested_unseen", "what one tool says is what the next one is asked for",
              {"families": ("follow", "look up and read")}, unseen=True),
        _task(game, "writing_unseen", "a sum over files, which is to be written to another",
              {"families": "write"}, unseen=True),
        _task(game, "all", "all families without Python, of problems that training has", {}),
        _task(game, "all_unseen", "all families without Python", {}, unseen=True),
    )  # fmt: skip


def _debates() -> Sequence[Scenario]:
    # Quality: in a zero-sum game that one plays against oneself there is nothing to be earned.
    debate, quality = partial(_task, "debate_v0", focal=("pro_0", "con_0")), {"scoring": "quality"}
    return (
        debate("both_sides", "both sides are focal, on motions that training has",
               {**quality, "debate_rounds": 2}),
        debate("both_sides_unseen", "both sides are focal, on new motions",
               {**quality, "debate_rounds": 2}, unseen=True),
        debate("one_round_unseen", "both sides speak once, and hear nothing before",
               {**quality, "debate_rounds": 1}, unseen=True),
        debate("alternating_unseen", "con hears pro before it answers, three times",
               {**quality, "order": "alternating"}, unseen=True),
    )  # fmt: skip
