"""Datasets of programming problems, in the layouts of HumanEval and of MBPP.

HumanEval (Chen et al. 2021): {"task_id", "prompt", "entry_point", "canonical_solution", "test"}.
MBPP (Austin et al. 2021): {"text" (or "prompt"), "code", "test_list"}, with the code before its
tests in "test_setup_code", "test_setup_list" or "test_imports". The first test of MBPP is visible.

The tests are code and run in another process than the program (Sandbox.judge): they call functions
with plain data. A test that uses a class of the program is not possible; such problems are skipped
and logged.
"""

from __future__ import annotations

import ast
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from srl_envs.errors import EnvConfigError
from srl_envs.loading import read_rows, text_of
from srl_envs.tasks.base import QUESTION_LENGTH, Problem

LAYOUTS = '{"prompt", "entry_point", "test"} (HumanEval) or {"text", "code", "test_list"} (MBPP)'
BEFORE = ("test_setup_code", "test_setup_list", "test_imports")
_logger = logging.getLogger(__name__)


def load(path: str | Path) -> tuple[Problem, ...]:
    """Load the problems of a JSONL file, without those that cannot be judged.

    Raises:
        EnvConfigError: A line has neither layout (the message contains its number), or no problem
            is left.
    """
    problems = []
    for number, found in read_rows(path, "problems", lambda row, line: (line, _problem(row, line))):
        if isinstance(found, Problem):
            problems.append(found)
        else:
            _logger.warning("%s, line %d is left out: %s", path, number, found)
    if not problems:
        raise EnvConfigError(f"{path} holds no problem: give lines of {LAYOUTS}")
    return tuple(problems)


def _problem(row: Any, number: int) -> Problem | str:
    """Return the problem of a row, or the reason why it cannot be judged."""
    if not isinstance(row, dict) or not {"entry_point", "test_list"} & set(row):
        raise EnvConfigError(f"{row!r:.40} is of neither layout: give lines of {LAYOUTS}")
    made = _human_eval(row) if "entry_point" in row else _mbpp(row)
    if isinstance(made, str):
        return made
    question, family, data = made
    if len(question) > QUESTION_LENGTH:
        return f"its question has {len(question)} characters, more than {QUESTION_LENGTH}"
    return Problem(question, data=data, info={"family": family, "line": number})


Parts = tuple[str, str, dict[str, Any]]
"""Question, family and data of a problem."""


def _human_eval(row: Mapping[str, Any]) -> Parts:
    prompt, entry, test = text_of(row, "prompt"), text_of(row, "entry_point"), text_of(row, "test")
    # The test may use the other functions of the prompt; the entry point is the program's.
    before = f"{prompt}\n    ...\n\n{entry} = elsewhere[{entry!r}]\n"
    data = {
        "prompt": prompt,
        "entry": entry,
        "visible": (),
        "hidden": (f"{before}{test}\n\ncheck({entry})\n",),
        "shown": (),
        "functions": (entry,),
        "solution": prompt + row.get("canonical_solution", ""),
    }
    return f"Complete the function {entry}.\n{prompt.strip()}", "HumanEval", data


def _mbpp(row: Mapping[str, Any]) -> Parts | str:
    words = text_of(row, "text" if row.get("text") is not None else "prompt")
    code, tests = text_of(row, "code"), row["test_list"]
    if not isinstance(tests, list) or not tests or not all(isinstance(t, str) for t in tests):
        raise EnvConfigError(f"test_list must be a list of texts, got {tests!r:.40}")
    setup = "\n".join(line for name in BEFORE for line in _lines(row, name))
    defined = _parsed(code).body
    functions = tuple(node.name for node in defined if isinstance(node, ast.FunctionDef))
    classes = {node.name for node in defined if isinstance(node, ast.ClassDef)}
    used = {node.id for t in tests for node in ast.walk(_parsed(t)) if isinstance(node, ast.Name)}
    if classes & used:
        return f"its tests use the program's class {min(classes & used)}"
    if not set(functions) & used:
        return "its tests call no function of its code"
    called = tuple(name for name in functions if name in used)
    question = f"{words.strip()}\nYour code must pass this test:\n{tests[0].strip()}"
    trials = tuple(f"{setup}\n{test}\n" for test in tests)
    data = {
        "prompt": "",
        "entry": called[0],
        "visible": trials[:1],
        "hidden": trials[1:],
        "shown": (tests[0].strip(),),
        "functions": called,
        "solution": code,
    }
    return question, "MBPP", data


def _parsed(code: str) -> ast.Module:
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise EnvConfigError(f"{code!r:.40} is not Python ({error})") from error


def _lines(row: Mapping[str, Any], name: str) -> list[str]:
    value = row.get(name) or []
    lines = [value] if isinstance(value, str) else value
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        raise EnvConfigError(f"{name} must be texts, got {value!r:.40}")
    return lines
