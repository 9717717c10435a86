"""Bounds of configuration values, each a ConfigError of one line."""

from srl_train.errors import ConfigError


def at_least(name: str, value: float, low: float) -> None:
    """Raise unless value >= low."""
    if not value >= low:
        raise ConfigError(f"{name} is {value}: give {low:g} or more")


def above(name: str, value: float, low: float) -> None:
    """Raise unless value > low."""
    if not value > low:
        raise ConfigError(f"{name} is {value}: give more than {low:g}")


def within(name: str, value: float, low: float, high: float) -> None:
    """Raise unless low <= value <= high."""
    if not low <= value <= high:
        raise ConfigError(f"{name} is {value}: give {low:g} to {high:g}")
