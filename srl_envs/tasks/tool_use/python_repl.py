"""Python interpreter for an agent, cell by cell, in the sandbox.

Every call is a fresh process: what earlier cells did is done again first, silently, so that names
stay while nothing else does. Only cells that ended well count.
"""

from __future__ import annotations

import ast
import atexit
import os
from functools import cache

from srl_envs.sandbox import Sandbox, Verdict
from srl_envs.tasks.tool_use.errors import ToolError

MOST_CELLS = 16
LONGEST = 4000  # characters of a cell

_AGAIN = """
import contextlib as _contextlib, io as _io
with _contextlib.redirect_stdout(_io.StringIO()), _contextlib.redirect_stderr(_io.StringIO()):
    for _cell in {cells!r}:
        exec(compile(_cell, "<cell>", "exec"), globals())
del _contextlib, _io
exec(compile({newest!r}, "<program>", "exec"), globals())
"""


class PythonRepl:
    """One agent's interpreter. `sandbox` is used instead of the one that all share."""

    def __init__(self, sandbox: Sandbox | None = None) -> None:
        self._sandbox = sandbox
        if sandbox is None:
            shared_sandbox()  # A sandbox that cannot be had is an error now.
        self._cells: tuple[str, ...] = ()

    def run(self, code: str) -> str:
        """A cell's output, with its last expression's value as an interpreter shows it.

        Raises ToolError with what went wrong in it.
        """
        if len(code) > LONGEST:
            raise ToolError(f"a cell may have {LONGEST} characters")
        if len(self._cells) >= MOST_CELLS:
            raise ToolError(f"there may be {MOST_CELLS} cells")
        newest = _showing(code)
        sandbox = self._sandbox or shared_sandbox()  # of the process that a copy is in
        run = sandbox.evaluate(_AGAIN.format(cells=self._cells, newest=newest))
        if run.verdict is not Verdict.OK:
            said = run.error.strip() or f"the program ended: {run.verdict}"
            raise ToolError(f"{said}\n{run.stdout[-500:]}".strip())
        self._cells = (*self._cells, newest)
        return run.stdout.rstrip("\n")


def _showing(code: str) -> str:
    """The cell, its last expression printed where it is not None; its lines stay where they are."""
    try:
        tree = ast.parse(code)
        compile(code, "<cell>", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError, UnicodeError) as error:
        raise ToolError(f"that is not Python: {error}") from None
    if not tree.body or not isinstance(tree.body[-1], ast.Expr):
        return code
    last = tree.body[-1]
    lines = code.encode().splitlines(keepends=True)
    before = b"".join(lines[: last.lineno - 1]) + lines[last.lineno - 1][: last.col_offset]
    shown = ast.get_source_segment(code, last)
    return f"{before.decode()}_ = ({shown}\n)\nif _ is not None: print(repr(_))"


def shared_sandbox() -> Sandbox:
    """This process's sandbox, started now if it was not; raises SandboxError where none is had."""
    return _shared(os.getpid())


@cache
def _shared(process: int) -> Sandbox:
    """One for each process, because processes may not share a sandbox."""
    sandbox = Sandbox()
    atexit.register(sandbox.close)
    return sandbox
