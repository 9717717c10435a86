"""Toolbox of one agent in one episode: calculator, files, search, Python, own tools.

The names of TOOLS stand for these functions:

- "calculator": calculator(expression)
- "files": read_file(path), write_file(path, content), list_files()
- "search": search(query)
- "python": python(code), which needs Linux and the extra "sandbox"
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from srl_envs.tasks.tool_use.calculator import calculate
from srl_envs.tasks.tool_use.file_store import FileStore, MemoryFiles
from srl_envs.tasks.tool_use.registry import Tool, ToolRegistry
from srl_envs.tasks.tool_use.schemas import function_schema
from srl_envs.tasks.tool_use.search import SHOWN, SearchProvider, as_text, shipped
from srl_envs.validation import check_choice

if TYPE_CHECKING:
    from srl_envs.tasks.tool_use.python_repl import PythonRepl

TOOLS = ("calculator", "files", "search", "python")
WITHOUT_SANDBOX = TOOLS[:3]


class Toolbox:
    """Tools with what they work on.

    `names` are some of TOOLS, `tools` come on top of them. Files are in memory where no `files`
    are given, and the shipped corpus is searched where no `search` is. Raises EnvConfigError for
    unknown names, ImportError where a library is missing, and SandboxError where "python" is
    asked for and cannot be confined.
    """

    def __init__(
        self,
        names: Iterable[str] = WITHOUT_SANDBOX,
        *,
        files: FileStore | None = None,
        search: SearchProvider | None = None,
        tools: Iterable[Tool] = (),
    ) -> None:
        chosen = [check_choice("tools", name, TOOLS) for name in names]
        self.files = MemoryFiles() if files is None else files
        self._search = search
        self._repl: PythonRepl | None = None
        functions: list[Callable[..., Any]] = []
        if "calculator" in chosen:
            functions.append(calculator)
        if "files" in chosen:
            functions += [self.read_file, self.write_file, self.list_files]
        if "search" in chosen:
            if search is None:
                shipped()  # A missing library is an error now, not at the first search.
            functions.append(self.search)
        if "python" in chosen:
            from srl_envs.tasks.tool_use.python_repl import PythonRepl  # needs the sandbox

            self._repl = PythonRepl()
            functions.append(self.python)
        # An exception of the package's own tools is a defect; a given search is the user's code.
        described = [
            _tool(function, strict=search is None or function.__name__ != "search")
            for function in functions
        ]
        self.registry = ToolRegistry([*described, *tools])

    # Tools are methods, not closures: copies of an episode must not share files.

    def read_file(self, path: str) -> str:
        """Read a file.

        Args:
            path: The file's name.
        """
        return self.files.read(path)

    def write_file(self, path: str, content: str) -> str:
        """Make a file, or replace one.

        Args:
            path: The file's name.
            content: The text that it will hold.
        """
        self.files.write(path, content)
        return f"Written: {path}"

    def list_files(self) -> list[str]:
        """List the names of all files."""
        return self.files.names()

    def search(self, query: str) -> str:
        """Search for documents.

        Args:
            query: A few words.
        """
        provider = shipped() if self._search is None else self._search
        return as_text(provider.search(query, SHOWN))

    def python(self, code: str) -> str:
        """Run Python, and see what it prints. Names stay from call to call.

        Args:
            code: Statements; the value of a last expression is printed.
        """
        assert self._repl is not None
        return self._repl.run(code)


def calculator(expression: str) -> str:
    """Compute an arithmetic expression exactly.

    Args:
        expression: Numbers, + - * / // % **, brackets, and functions such as sqrt(2) or max(1, 2).
    """
    return calculate(expression)


def _tool(function: Callable[..., Any], *, strict: bool) -> Tool:
    said = _SCHEMAS.get(function.__name__)
    if said is None:  # the same for every agent, and slow to read off the docstring
        said = _SCHEMAS[function.__name__] = function_schema(function)["function"]
    return Tool(said["name"], said["description"], said["parameters"], function, strict)


_SCHEMAS: dict[str, Any] = {}
