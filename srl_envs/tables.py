"""Tables of named parts: the core lists its own, installed packages add more by entry points."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pkgutil import resolve_name
from typing import Any, TypeVar

from srl_envs.errors import EnvConfigError


@dataclass(frozen=True)
class Plugin:
    """One entry of a table. A part that is given by its name is imported when it is loaded."""

    target: Any
    """`module`, `module:attribute`, or the part itself."""
    summary: str = ""
    """One line for listings."""

    def load(self) -> Any:
        """Import the part. Raises ImportError if an optional dependency is missing."""
        if not isinstance(self.target, str):
            return self.target
        if ":" not in self.target:  # resolve_name hides the ImportError of a module
            return importlib.import_module(self.target)
        return resolve_name(self.target)


P = TypeVar("P", bound=Plugin)


class PluginTable(Mapping[str, P]):
    """Parts by name, in the order in which they are listed.

    Entry points of installed packages are read once, when the table is first iterated or a name is
    not among its own entries. An entry point cannot replace an entry of the core.

    Args:
        group: Name of the entry-point group, such as "core_srl.commands".
        parts: Name to the part, for the parts that belong to this distribution. At least one; its
            class is the class of the entries that entry points add.
        error: Class of the error for an unknown name.
    """

    def __init__(
        self,
        group: str,
        parts: Mapping[str, P],
        error: Callable[[str], Exception] = EnvConfigError,
    ) -> None:
        self.group = group
        self._own = dict(parts)
        self._error = error

    @functools.cached_property
    def _all(self) -> dict[str, P]:
        kind = type(next(iter(self._own.values())))
        added = {
            entry.name: kind(entry.value, f"from {entry.value}")
            for entry in metadata.entry_points(group=self.group)
        }
        return self._own | {name: plugin for name, plugin in added.items() if name not in self._own}

    def __getitem__(self, name: str) -> P:
        return self._own[name] if name in self._own else self._all[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def load(self, name: str) -> Any:
        """Import the part of that name.

        Raises:
            EnvConfigError: If the table has no such name (or the class given as `error`).
            ImportError: If an optional dependency of the part is missing.
        """
        if name not in self:
            raise self._error(f"unknown name {name!r}; allowed: {', '.join(self)}")
        return self[name].load()
