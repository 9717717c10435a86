"""Checks of what callers give: each returns the value or raises ConfigError. No torch."""

from __future__ import annotations

import os
from typing import Any

from srl_train.errors import ConfigError


def text(name: str, value: Any) -> str:
    """A text that is not empty, and of which a tokenizer or server can make bytes."""
    if not isinstance(value, str) or not value or not _encodable(value):
        raise ConfigError(f"{name} is {value!r}: give a text")
    return value


def whole(name: str, value: Any, low: int, high: int | None = None) -> int:
    """A whole number; bools are none."""
    if type(value) is not int or value < low or (high is not None and value > high):
        most = "or more" if high is None else f"to {high}"
        raise ConfigError(f"{name} is {value!r}: give a whole number, {low} {most}")
    return value


def path(name: str, value: Any) -> str:
    """A path of a file or folder, or a hub name, as text."""
    try:
        given = os.fspath(value)
    except TypeError:
        given = None
    if not isinstance(given, str) or not given or "\x00" in given:
        raise ConfigError(f"{name} is {value!r}: give a path")
    return given


def _encodable(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:  # half a pair of surrogates
        return False
    return True
