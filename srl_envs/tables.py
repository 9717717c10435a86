"""Tables of named parts, to which installed packages add by entry points."""

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
    """Entry of a table: an object, or the name of a module or attribute that `load` imports."""

    target: Any
    """'module', 'module:attribute', or the object itself."""
    summary: str = ""
    """Line for listings."""

    def load(self) -> Any:
        """Return `target`, or the module or attribute that it names.

        Raises ImportError if a module is missing, AttributeError if the attribute is.
        """
        if not isinstance(self.target, str):
            return self.target
        if ":" not in self.target:  # resolve_name would hide an ImportError within the module.
            return importlib.import_module(self.target)
        return resolve_name(self.target)


P = TypeVar("P", bound=Plugin)


class PluginTable(Mapping[str, P]):
    """Mapping from names to Plugins: `parts` first, then entry points of installed packages.

    Entry points are read once, on first iteration, `len` or use of a name outside `parts`. They
    cannot replace `parts`. Indexing raises KeyError for an unknown name.

    Args:
        group: Name of the entry-point group, such as "core_srl.commands".
        parts: Plugins of this distribution by name, at least one. Added ones have the same class.
        error: Class of the error that `load` raises for an unknown name.
    """

    def __init__(
        self, group: str, parts: Mapping[str, P], error: Callable[[str], Exception] = EnvConfigError
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
        """Return the object (not its Plugin) with this name, imported if necessary.

        Raises:
            EnvConfigError: The name is unknown (another class if the table has an `error`).
            ImportError: A module that the object needs is missing.
        """
        if name not in self:
            raise self._error(f"unknown name {name!r}; allowed: {', '.join(self)}")
        return self[name].load()
