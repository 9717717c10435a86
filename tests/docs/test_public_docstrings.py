"""Every public function, constructor and method documents each of its arguments.

Public are the names that the README, the pages, the extensions' READMEs and the examples import.
"""

import dataclasses
import enum
import importlib
import inspect
import re
from pathlib import Path
from typing import Protocol

import pydantic
import pytest

ROOT = Path(__file__).parents[2]
READERS = [
    ROOT / "README.md",
    *(ROOT / "docs").rglob("*.md"),
    *ROOT.glob("srl_extensions/*/README.md"),
    *ROOT.glob("examples/*.py"),
]
OURS = ("srl_envs", "srl_agents", "srl_train", "srl_extensions", "core_srl", "mrlm")
IMPORT = re.compile(
    rf"^\s*from ((?:{'|'.join(OURS)})\b[\w.]*) import (\([^)]*\)|[^\n#]*)", re.MULTILINE
)


def imported():
    """Return the sorted (module, name) pairs that the readers' code imports."""
    found = {
        (module, name)
        for path in READERS
        for module, names in IMPORT.findall(path.read_text(encoding="utf-8"))
        for name in re.findall(r"\w+(?: as \w+)?", re.sub(r"#.*", "", names))
    }
    return sorted((module, name.partition(" ")[0]) for module, name in found)


def ours(thing):
    return thing.__module__.partition(".")[0] in OURS


def parameters(function):
    return [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]


def lacking(docstring, names):
    """Return the names without an entry in the docstring's section of arguments."""
    section = (docstring or "").partition("Args:\n")[2]
    return [name for name in names if not re.search(rf"^\s*(?:.+, )?\**{name}\b.*:", section, re.M)]


def has_documented_fields(kind):
    """Return True if docstrings or descriptions of fields replace the section of arguments."""
    return (
        dataclasses.is_dataclass(kind)
        or issubclass(kind, pydantic.BaseModel | enum.Enum)
        or hasattr(kind, "_fields")  # a NamedTuple
    )


def constructor_lacks(kind):
    """Return the arguments of a constructor that no class up to its definition documents."""
    definer = next(base for base in kind.__mro__ if "__init__" in vars(base))
    if has_documented_fields(kind) or not ours(definer):
        return []
    line = kind.__mro__[: kind.__mro__.index(definer) + 1]
    texts = [base.__doc__ for base in line] + [definer.__init__.__doc__]
    return [name for name in parameters(kind) if all(lacking(text, [name]) for text in texts)]


def protocols(kind=Protocol):
    for below in kind.__subclasses__():
        yield below
        yield from protocols(below)


def overridden(kind, name):
    """Return the methods of this name in the bases of a class and in the project's protocols."""
    bases = [*kind.__mro__[1:], *(one for one in protocols() if ours(one))]
    return [getattr(vars(base)[name], "__func__", vars(base)[name])
            for base in bases if inspect.isroutine(vars(base).get(name))]  # fmt: skip


def method_lacks(kind, name, method):
    """Return the arguments of a method that neither it nor a method it overrides documents."""
    names = parameters(method)
    if method.__doc__ is None and len(names) < 2:
        return []
    for above in overridden(kind, name):
        if not ours(above) or not lacking(above.__doc__, parameters(above)):
            names = [one for one in names if ours(above) and one not in parameters(above)]
    return lacking(method.__doc__, names)


@pytest.mark.parametrize(("module", "name"), imported(), ids=lambda part: part)
def test_every_argument_is_documented(module, name):
    try:
        thing = getattr(importlib.import_module(module), name)
    except ImportError as error:  # an extra that is not installed
        pytest.skip(str(error))
    except AttributeError:
        importlib.import_module(f"{module}.{name}")  # a module, which has no arguments
        return
    found = {}
    if inspect.isclass(thing) and ours(thing):
        found[name] = constructor_lacks(thing)
        for key, member in vars(thing).items():
            method = getattr(member, "__func__", member)
            if inspect.isfunction(method) and not key.startswith("_"):
                found[f"{name}.{key}"] = method_lacks(thing, key, method)
    elif inspect.isfunction(thing):
        found[name] = lacking(thing.__doc__, parameters(thing))
    assert {key: names for key, names in found.items() if names} == {}
