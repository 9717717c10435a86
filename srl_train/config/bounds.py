"""Bounds of configuration values, each violation one ConfigError."""

from srl_train.errors import ConfigError

MOST_THREADS = 1024  # of torch: more than any machine has cores; far more of them crash it


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


def _told(bound: float) -> str:
    return str(bound) if isinstance(bound, int) else f"{bound:g}"
