"""References in a configuration to code, files and folders of this machine.

Whoever writes a configuration names what he likes. Records are written by others: while an
environment is made from one (`registry.remake`), nothing outside it is reached. Every option that
names code or a place goes through `code` or `place`, so that this holds for all environments.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from srl_envs.errors import EnvConfigError, UntrustedError

LARGEST_RECORDED = 1000
"""Whole numbers in a record's options, agents and sides of mazes among them, added up; every other
entry counts as one. What only says when something happens (OF_TIME) costs nothing."""
OF_TIME = frozenset(
    {
        "debate_rounds",
        "episode",
        "history",
        "level_seed",
        "max_cycles",
        "problem_seed",
        "switch_pull",
        "warmup_episodes",
    }
)
WAY_OUT = "give --trust (trusted=True) if you trust whoever wrote it"

_closed: ContextVar[Collection[str] | None] = ContextVar("closed", default=None)


@contextmanager
def closed(allowing: Collection[str] = ()) -> Iterator[None]:
    """While this lasts, `code` and `place` raise UntrustedError, but for the code that the user's
    own settings name: `allowing`, each a 'module:function'."""
    before = _closed.set(allowing)
    try:
        yield
    finally:
        _closed.reset(before)


def is_closed() -> bool:
    """Whether an environment is being made from a record that is not trusted."""
    return _closed.get() is not None


def names_code(name: str) -> bool:
    """Return whether `name` has the form 'module:function', without importing anything."""
    module, _, attribute = name.partition(":")
    return all(part.isidentifier() for part in (*module.split("."), attribute))


def code(name: str, option: str | None = None) -> Callable[..., Any]:
    """Import the function or class that 'module:function' names.

    As with `python -m`, the current folder is importable. It is searched last, so that no file in
    it replaces an installed package.

    Args:
        name: 'module:function' or 'module:Class'.
        option: Setting that contains the name, for error messages.

    Raises:
        EnvConfigError: The name has another form, or the module or the attribute is missing.
        UntrustedError: A record names the code (`closed`).
    """
    named = name if option is None else f"{option}: {name}"
    module, _, attribute = name.partition(":")
    if not names_code(name):
        raise EnvConfigError(f"{named!r} is no 'module:function', such as 'my_games:chess'")
    if is_closed() and name not in (_closed.get() or ()):
        raise UntrustedError(f"{named!r} is code that a record names, and is not run: {WAY_OUT}")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        found = getattr(import_module(module), attribute, None)
    except ModuleNotFoundError as error:
        if not f"{module}.".startswith(f"{error.name}."):
            raise  # an import within the module failed, which the traceback shows
        raise EnvConfigError(
            f"{named}: {error}; run the command in the folder of the module, or set PYTHONPATH to "
            "that folder"
        ) from error
    if not callable(found):
        raise EnvConfigError(f"{named}: module {module} has no function or class {attribute!r}")
    return found  # type: ignore[no-any-return]  # callable() says no more than that


def place(path: str | os.PathLike[str], option: str) -> Path:
    """The file or folder that the `option` names.

    Raises EnvConfigError for what names none, and UntrustedError within `closed`.
    """
    if not isinstance(path, str | os.PathLike):
        raise EnvConfigError(f"{option} must name a file or folder, got {path!r:.200}")
    if is_closed():
        raise UntrustedError(
            f"{option}: {os.fspath(path)!r:.200} is a place on this machine that a record names, "
            f"and is not opened: {WAY_OUT}"
        )
    return Path(path)


def at_most(value: float, most: float, option: str) -> float:
    """`value`; within `closed` it raises UntrustedError for more than `most`."""
    if is_closed() and value > most:
        raise UntrustedError(
            f"{option}: a record asks for {value:g}, up to {most:g} is given: {WAY_OUT}"
        )
    return value


def refuse_large(options: Mapping[str, Any]) -> None:
    """Raise UntrustedError for a record's options that ask for more than LARGEST_RECORDED."""
    size = sum(_size(name, value) for name, value in options.items())
    if size > LARGEST_RECORDED:
        raise UntrustedError(
            f"the record asks for an environment of size {size:g}, counting agents, sides and the "
            f"like, at most {LARGEST_RECORDED} is made: {WAY_OUT}"
        )


def _size(name: str, value: Any) -> float:
    if isinstance(value, np.ndarray | np.generic):  # which a record may hold as well
        value = value.tolist()
    if isinstance(value, Mapping):
        return 1 + sum(_size(str(key), entry) for key, entry in value.items())
    if isinstance(value, list | tuple):
        return 1 + sum(_size(name, entry) for entry in value)
    if isinstance(value, int) and name not in OF_TIME:
        return max(1.0, min(abs(value), 1e9))
    return 1
