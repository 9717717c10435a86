"""Generator of compatibility.md: all documented names, with descriptions from docstrings.

python docs/project/compatibility.py    writes the page
"""

from __future__ import annotations

import inspect
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

All names in the public documentation of `core_srl` and `mrlm`, with their module, behavior and
differences. `python docs/project/compatibility.py` generates this page. The programs in the public
documentation run as tests (`tests/docs`).
"""


def listed(package: str, what: str = "") -> list[dict[str, str]]:
    """Return the entries of a table in a package's list, or [] if the list is not installed.

    Args:
        package: Key of LISTS.
        what: Name of the table; by default the documented names.
    """
    path = LISTS[package]
    if not path.is_file():
        return []
    entries: list[dict[str, str]] = tomllib.loads(path.read_text(encoding="utf-8"))[what or package]
    return entries


def found(package: str, entry: dict[str, str]) -> tuple[Any, str]:
    """Return the object that an entry names, and the name of its module.

    Raises:
        AttributeError: If the module lacks the name.
        ImportError: If the module does not exist.
    """
    if "place" in entry:
        module, _, path = entry["place"].partition(":")
        thing = import_module(module)
        return (attrgetter(path)(thing) if path else thing), module
    whole = import_module(package)
    top = entry["name"].partition(".")[0]
    return attrgetter(entry["name"])(whole), whole._PLACES[top]


def page() -> str:
    """Return the Markdown text of the page."""
    return (
        HEAD
        + "".join("".join(_section(package)) for package in LISTS)
        + "\n## Errors\n\n| documented | raised as |\n|---|---|\n"
        + "".join(f"| {e['documented']} | {e['raised']} |\n" for e in listed("core_srl", "errors"))
        + "\n## Files of the documents\n\n| documented | here |\n|---|---|\n"
        + "".join(f"| {e['documented']} | {e['here']} |\n" for e in listed("core_srl", "files"))
    )


def _section(package: str) -> Iterator[str]:
    yield f"\n## {package}\n\n| name | where | what it does | what differs |\n|---|---|---|---|\n"
    for entry in listed(package):
        name = entry["name"]
        if package == "mrlm":
            module, does = entry["place"], entry["does"]
        else:
            thing, module = found(package, entry)
            does = _first_line(thing)
        yield f"| `{name}` | `{module}` | {_cell(does)} | {_cell(entry['differs'])} |\n"


def _first_line(thing: Any) -> str:
    if not (callable(thing) or isinstance(thing, property)):
        return "a table"
    text = (inspect.getdoc(thing) or "").partition("\n\n")[0]
    return " ".join(text.split())


def _cell(text: str) -> str:
    return re.sub(r"(?<!`)<([^>]*)>", r"`<\1>`", text).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
