"""The page of all documented names, compatibility.md, from the lists of them.

python docs/project/compatibility.py    writes the page
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PAGE = HERE / "compatibility.md"
LISTS = {"core_srl": HERE / "compatibility.toml", "mrlm": ROOT / "compat/mrlm/names.toml"}
HEAD = """# Documented names

This page lists every name of the public documentation of `core_srl` and `mrlm`, and how it differs
here. Docstrings describe each name. `python docs/project/compatibility.py` writes this page, and
`tests/docs` run all programs of the documentation.
"""


def listed(package: str, what: str = "") -> list[dict[str, str]]:
    """Return a package's names, or another table of its list; empty if this copy has no list."""
    path = LISTS[package]
    if not path.is_file():
        return []
    entries: list[dict[str, str]] = tomllib.loads(path.read_text(encoding="utf-8"))[what or package]
    return entries


def found(package: str, entry: dict[str, str]) -> tuple[Any, str]:
    """Return the object that an entry names, and its module.

    Raises:
        AttributeError: If the module has no such object.
        ImportError: If the module cannot be imported.
    """
    if "place" in entry:
        module, _, path = entry["place"].partition(":")
        thing = import_module(module)
        return (attrgetter(path)(thing) if path else thing), module
    whole = import_module(package)
    top = entry["name"].partition(".")[0]
    return attrgetter(entry["name"])(whole), whole._PLACES[top]


def page() -> str:
    """Return the page as Markdown."""
    return (
        HEAD
        + "".join("".join(_section(package)) for package in LISTS)
        + "\n## Errors\n\n| documented | raised as |\n|---|---|\n"
        + "".join(f"| {e['documented']} | {e['raised']} |\n" for e in listed("core_srl", "errors"))
        + "\n## Files of the documents\n\n| documented | here |\n|---|---|\n"
        + "".join(f"| {e['documented']} | {e['here']} |\n" for e in listed("core_srl", "files"))
    )


def _section(package: str) -> Iterator[str]:
    entries = listed(package)
    same = "\n".join(entry["name"] for entry in entries if not entry["differs"])
    yield f"\n## {package}\n\nAs documented:\n\n```text\n{same}\n```\n\n"
    yield "With differences:\n\n| name | difference |\n|---|---|\n"
    for entry in entries:
        if entry["differs"]:
            yield f"| `{entry['name']}` | {_cell(entry['differs'])} |\n"


def _cell(text: str) -> str:
    return re.sub(r"(?<!`)<([^>]*)>", r"`<\1>`", text).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
