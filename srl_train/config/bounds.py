"""Bounds of configuration values, each a ConfigError of one line."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from srl_train.errors import ConfigError


def at_least(name: str, value: float, low: float) -> None:
    """Raise unless value >= low."""
    if not value >= low:
        raise ConfigError(f"{name} is {value}: give {_told(low)} or more")


def above(name: str, value: float, low: float) -> None:
    """Raise unless value > low."""
    if not value > low:
        raise ConfigError(f"{name} is {value}: give more than {_told(low)}")


def within(name: str, value: float, low: float, high: float) -> None:
    """Raise unless low <= value <= high."""
    if not low <= value <= high:
        raise ConfigError(f"{name} is {value}: give {_told(low)} to {_told(high)}")


def refuse_unread(
    section: str, config: Any, chooser: str, readers: Mapping[str, tuple[str, ...]]
) -> None:
    """Raise for a field off its default that the chosen part does not read."""
    defaults = {entry.name: default_of(entry) for entry in dataclasses.fields(config)}
    chosen = getattr(config, chooser)
    for name, own in readers.items():
        if getattr(config, name) != defaults[name] and chosen not in own:
            raise ConfigError(
                f"{section}.{name} is read by {' and '.join(own)} only, "
                f"{section}.{chooser} is {chosen!r}"
            )


def _told(bound: float) -> str:
    return str(bound) if isinstance(bound, int) else f"{bound:g}"


def default_of(entry: dataclasses.Field[Any]) -> Any:
    """A dataclass field's default value."""
    if entry.default_factory is not dataclasses.MISSING:
        return entry.default_factory()
    return entry.default
