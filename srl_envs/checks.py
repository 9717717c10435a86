"""Checks of constructor arguments: each gives the checked value back or says what was allowed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import Any

from srl_envs.errors import EnvConfigError


def number_between(name: str, value: Any, low: float, high: float = math.inf) -> float:
    """`value` as a float in [low, high]; raises EnvConfigError otherwise."""
    if isinstance(value, Real) and not isinstance(value, bool):
        number = float(value)
        if math.isfinite(number) and low <= number <= high:
            return number
    allowed = f"at least {low:g}" if math.isinf(high) else f"between {low:g} and {high:g}"
    raise EnvConfigError(f"{name} must be a number {allowed}, got {value!r}")


def whole_number(name: str, value: Any, low: int, high: float = math.inf) -> int:
    """`value` as an int in [low, high]; raises EnvConfigError otherwise."""
    if isinstance(value, Integral) and not isinstance(value, bool) and low <= int(value) <= high:
        return int(value)
    allowed = f"of at least {low}" if math.isinf(high) else f"from {low} to {high}"
    raise EnvConfigError(f"{name} must be a whole number {allowed}, got {value!r}")


def true_or_false(name: str, value: Any) -> bool:
    """`value` if it is a bool; raises EnvConfigError otherwise."""
    if isinstance(value, bool):
        return value
    raise EnvConfigError(f"{name} must be True or False, got {value!r}")


def one_of(name: str, value: Any, allowed: Iterable[str | None]) -> Any:
    """`value` if it is among `allowed`; raises EnvConfigError otherwise."""
    choices = tuple(allowed)
    if (value is None or isinstance(value, str)) and value in choices:
        return value
    raise EnvConfigError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")


def reset_arguments(seed: Any, options: Any) -> tuple[int | None, Mapping[str, Any]]:
    """The arguments of `reset`, no options as an empty mapping; raises EnvConfigError otherwise."""
    if options is not None and not isinstance(options, Mapping):
        raise EnvConfigError(f"options must be a mapping of names to values, got {options!r}")
    return None if seed is None else whole_number("seed", seed, low=0), options or {}
