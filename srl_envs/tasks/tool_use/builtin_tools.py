"""Built-in tools of one agent in one episode: calculator, files, search, Python.

The names of TOOLS select these functions:

- "calculator": calculator(expression)
- "files": read_file(path), write_file(path, content), list_files()
- "search": search(query)
- "python": python(code), which needs Linux and the extra "sandbox"
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from srl_envs.loading import needed_by
from srl_envs.tasks.tool_use.calculator import calculator
from srl_envs.tasks.tool_use.tools import Tool, ToolError, ToolRegistry
from srl_envs.validation import check_choice

TOOLS = ("calculator", "files", "search", "python")
WITHOUT_SANDBOX = TOOLS[:3]

CORPUS = Path(__file__).with_name("corpus.jsonl")
SHOWN = 3  # documents in a result
EXCERPT = 400  # characters of each
LARGEST_FILE = 16_384  # bytes
MOST_FILES = 64
MOST_CELLS = 16
LONGEST_CELL = 4000  # characters
_REPL = """
import ast as _ast, contextlib as _contextlib, io as _io
def _run(_cell, _name):
    _tree = _ast.parse(_cell, _name)
    _last = _tree.body.pop() if _tree.body and isinstance(_tree.body[-1], _ast.Expr) else None
    exec(compile(_tree, _name, "exec"), globals())
    if _last is not None:
        globals()["_"] = eval(compile(_ast.Expression(_last.value), _name, "eval"), globals())
        if _ is not None: print(repr(_))
with _contextlib.redirect_stdout(_io.StringIO()), _contextlib.redirect_stderr(_io.StringIO()):
    for _cell in {cells!r}: _run(_cell, "<cell>")
_run({newest!r}, "<program>")
"""
_WORD = re.compile(r"[^\W_]+")
_FILE_NAME = re.compile(r"(?:[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}(?:/(?!$)|$)){1,4}")
_BUILT_IN: dict[str, Tool] = {}  # The schemas are equal for all agents, and slow to build.


class Toolbox:
    """Tools with the state of one agent in one episode; `registry` makes the calls.

    Files are in memory, so no file name leads to the machine.

    Args:
        names: Names in TOOLS, by default all but "python".
        files: File name -> text, none by default.
        search: Search provider, the shipped corpus by default.
        tools: Additional tools.

    Raises:
        EnvConfigError: A name is unknown, two tools have the same name, or a schema is invalid.
        ToolError: A file has an invalid name or is too large, or there are too many files.
        ImportError: A library is missing.
        SandboxError: Python cannot be confined.
    """

    def __init__(
        self,
        names: Iterable[str] = WITHOUT_SANDBOX,
        *,
        files: Mapping[str, str] | None = None,
        search: SearchProvider | None = None,
        tools: Iterable[Tool] = (),
    ) -> None:
        chosen = [check_choice("tools", name, TOOLS) for name in names]
        self._files: dict[str, str] = {}
        for path, content in (files or {}).items():
            self.write_file(path, content)
        self._search = search
        functions: dict[str, list[Callable[..., Any]]] = {
            "calculator": [calculator],
            "files": [self.read_file, self.write_file, self.list_files],
            "search": [self.search],
            "python": [self.python],
        }
        if "search" in chosen and search is None:
            shipped()  # Raises now, not at the first search, if the library is missing.
        if "python" in chosen:
            from srl_envs.sandbox import shared_sandbox

            self._sandbox = shared_sandbox()
            self._cells: tuple[str, ...] = ()
        built_in = []
        for function in [each for name in functions if name in chosen for each in functions[name]]:
            name = function.__name__
            if name not in _BUILT_IN:
                _BUILT_IN[name] = Tool.of(function)
            built_in.append(replace(_BUILT_IN[name], function=function))
        self.registry = ToolRegistry([*built_in, *tools])

    # Tools are methods, not closures: copies of an episode must not share files. Their docstrings
    # are part of the prompt.

    def read_file(self, path: str) -> str:
        """Read a file.

        Args:
            path: The file's name.

        Raises:
            ToolError: The name is invalid, or there is no such file.
        """
        _check_name(path)
        if path not in self._files:
            raise ToolError(f"there is no file {path!r}")
        return self._files[path]

    def write_file(self, path: str, content: str) -> str:
        """Make a file, or replace one.

        Args:
            path: The file's name.
            content: The text that it will hold.

        Returns:
            "Written: " and the name.

        Raises:
            ToolError: The name is invalid, or the file or the number of files is too large.
        """
        _check_name(path)
        data = content.encode("utf-8", "backslashreplace")
        if len(data) > LARGEST_FILE:
            raise ToolError(
                f"a file may have {LARGEST_FILE} bytes, this one would have {len(data)}"
            )
        if path not in self._files and len(self._files) >= MOST_FILES:
            raise ToolError(f"there may be {MOST_FILES} files")
        self._files[path] = data.decode()
        return f"Written: {path}"

    def list_files(self) -> list[str]:
        """List the names of all files."""
        return sorted(self._files)

    def search(self, query: str) -> str:
        """Search for documents.

        Args:
            query: A few words.

        Returns:
            Titles and EXCERPT characters of up to SHOWN documents, or "Nothing was found."

        Raises:
            ToolError: The query contains no word, or the search provider refuses it.
        """
        provider = shipped() if self._search is None else self._search
        found = provider.search(query, SHOWN)
        paragraphs = [f"{document.title}\n{document.text[:EXCERPT]}" for document in found]
        return "\n\n".join(paragraphs) or "Nothing was found."

    def python(self, code: str) -> str:
        """Run Python, and see what it prints. Names stay from call to call.

        Args:
            code: Statements; the value of a last expression is printed.

        Raises:
            ToolError: The program fails, or the program or the number of calls exceeds a limit.
        """
        if len(code) > LONGEST_CELL:
            raise ToolError(f"a cell may have {LONGEST_CELL} characters")
        if len(self._cells) >= MOST_CELLS:
            raise ToolError(f"there may be {MOST_CELLS} cells")
        # A new process repeats all successful earlier cells, so names persist, but files do not.
        run = self._sandbox.evaluate(_REPL.format(cells=self._cells, newest=code))
        if run.verdict != "ok":
            error = run.error.strip() or f"the program ended: {run.verdict}"
            raise ToolError(f"{error}\n{run.stdout[-500:]}".strip())
        self._cells = (*self._cells, code)
        return run.stdout.rstrip("\n")


def _check_name(path: str) -> None:
    if not _FILE_NAME.fullmatch(path):
        raise ToolError(
            f"{path[:40]!r} is no file name here: letters, digits and ._-, folders joined by /, "
            "not absolute and without '..'"
        )


@dataclass(frozen=True)
class SearchDocument:
    """Document that a search can find."""

    title: str
    text: str


class SearchProvider(Protocol):
    """Search provider: any object with the method `search`."""

    def search(self, query: str, count: int) -> Sequence[SearchDocument]:
        """Return up to `count` documents that match `query`, an agent's text; the best first.

        May raise ToolError, whose message the agent reads.
        """
        ...


class BM25Search:
    """BM25 search (Robertson et al. 1995) by the bm25s library, without regard to case.

    Every result contains a word of the query in its title or text. Of equal scores, the earlier
    document is first. A query without words raises ToolError.

    Args:
        documents: At least one document.

    Raises:
        ImportError: bm25s is missing.
    """

    def __init__(self, documents: Iterable[SearchDocument]) -> None:
        with needed_by("search"):
            import bm25s
        self.documents = tuple(documents)
        self._index = bm25s.BM25()
        self._index.index(
            [_words(f"{found.title} {found.text}") for found in self.documents], show_progress=False
        )

    def search(self, query: str, count: int) -> Sequence[SearchDocument]:
        words = _words(query)
        if not words:
            raise ToolError("the query holds no word")
        scores = self._index.get_scores(words)
        order = sorted(range(len(self.documents)), key=lambda place: (-scores[place], place))
        return [self.documents[place] for place in order[:count] if scores[place] > 0]


@cache
def shipped() -> BM25Search:
    """Return the search over the shipped corpus, or raise ImportError if bm25s is missing."""
    entries = map(json.loads, CORPUS.read_text(encoding="utf-8").splitlines())
    return BM25Search(SearchDocument(entry["title"], entry["text"]) for entry in entries)


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]
