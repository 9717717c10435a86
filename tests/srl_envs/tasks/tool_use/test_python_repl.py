"""Python as a tool: names persist from cell to cell, and a failed cell has no effect."""

import pytest

from srl_envs.sandbox import Limits
from srl_envs.tasks.tool_use.builtin_tools import LONGEST_CELL, MOST_CELLS, Toolbox
from srl_envs.tasks.tool_use.tools import ToolError
from tests.srl_envs.sandbox.sandboxes import any_sandbox


@pytest.fixture(scope="module")
def sandbox():
    with any_sandbox(Limits(wall=20.0, cpu=4)) as made:
        yield made


@pytest.fixture
def repl(sandbox, monkeypatch):
    monkeypatch.setattr("srl_envs.sandbox.shared_sandbox", lambda: sandbox)
    return Toolbox(["python"])


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("6 * 7", "42"),
        ("x = 3; x + 1", "4"),
        ("print('a')\n'b'", "a\n'b'"),
        ("None", ""),
        ("1, 2  # a pair", "(1, 2)"),
        ("(\n    1 +\n    2\n)", "3"),
        ("'\u00e4'; '\u00e4' * 2", "'\u00e4\u00e4'"),
        ("if True:\n    5", ""),
        ("", ""),
    ],
)
def test_output_equals_that_of_an_interpreter(repl, code, shown):
    assert repl.python(code) == shown


def test_names_persist_and_output_is_not_repeated(repl):
    assert repl.python("print('once')\nx = [1]\ndef double(): return x * 2") == "once"
    assert repl.python("x.append(2)") == ""
    assert repl.python("double()") == "[1, 2, 1, 2]"
    with pytest.raises(ToolError):
        repl.python("x = 'lost'\n1 / 0")
    assert repl.python("x, _") == "([1, 2], [1, 2, 1, 2])"
    with pytest.raises(ToolError, match="NameError"):
        Toolbox(["python"]).python("x")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("\n# a line\nx = 1\n1 / 0", "ZeroDivisionError: division by zero .line 4"),
        ("def f(:", "SyntaxError"),
        ("x = '\x00'", "null bytes"),
        ("(" * 3000, "Error"),
        ("import sys; sys.exit(3)", "SystemExit"),
        ("import os; os._exit(3)", "ended"),
        ("bytearray(2**40)", "MemoryError"),
        ("print('x' * 10**6)", "^more than .* of output"),
        ("1" * (LONGEST_CELL + 1), "characters"),
    ],
)
def test_failures_are_described_and_change_nothing(repl, code, said):
    repl.python("kept = 1")
    with pytest.raises(ToolError, match=said):
        repl.python(code)
    assert repl.python("kept") == "1"


def test_number_of_cells_is_limited(repl):
    for number in range(MOST_CELLS):
        repl.python(f"x{number} = {number}")
    with pytest.raises(ToolError, match=f"{MOST_CELLS} cells"):
        repl.python("x1")
