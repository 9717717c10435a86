"""The table of all modules, docs/layout.md, written from the modules' own docstrings.

python docs/layout.py        writes the page
python docs/layout.py --check    fails where the page is not what would be written
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "layout.md"
PACKAGES = ("srl_envs", "srl_agents", "srl_train", "core_srl")
HEAD = """# Layout

Every module and what it is, by the first sentence of its docstring. `python docs/layout.py` writes
this page; what holds it all together is in [architecture.md](project/architecture.md).
"""


def summary(path: Path) -> str:
    """The first sentence of a module's docstring, in one line."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    first, *more = docstring.partition("\n\n")[0].split("\n")
    while more and not first.endswith("."):
        first += " " + more.pop(0)
    return first


def page() -> str:
    """The page: a section for each folder, a line for each module."""
    return HEAD + "".join(section for top in PACKAGES for section in _sections(ROOT / top))


def _sections(folder: Path) -> Iterator[str]:
    modules = sorted(folder.glob("*.py"))
    lines = [f"- `{path.name}` {summary(path)}\n" for path in modules if path.stem != "__init__"]
    title = f"\n## {folder.relative_to(ROOT).as_posix()}\n\n{summary(folder / '__init__.py')}\n"
    yield title + ("\n" + "".join(lines) if lines else "")
    for below in sorted(path.parent for path in folder.glob("*/__init__.py")):
        yield from _sections(below)


if __name__ == "__main__":
    if "--check" not in sys.argv:
        PAGE.write_text(page(), encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != page():
        sys.exit("docs/layout.md is not up to date: python docs/layout.py")
