"""Checks of arguments. Each returns the value or raises an error with the allowed values."""

from __future__ import annotations

import inspect
import ipaddress
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any, ParamSpec, TypeVar
from urllib.parse import urlsplit

from srl_envs.errors import EnvConfigError, EnvError

LARGEST = 1e30
"""Default upper bound of numbers. Sums of several still fit into a float32 observation."""
LARGEST_WHOLE = sys.float_info.max
"""Default upper bound of whole numbers, which can be converted to float."""
MOST_PLAYERS = 10_000
"""Upper bound of the number of agents of a game, which limits its memory."""

Reset = tuple[dict[str, Any], dict[str, dict[str, Any]]]
"""Result of `ParallelEnv.reset`: observations and infos, by agent."""
Step = tuple[
    dict[str, Any], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]
]
"""Result of `ParallelEnv.step`."""
P = ParamSpec("P")
T = TypeVar("T")


def number_between(name: str, value: Any, low: float, high: float = LARGEST) -> float:
    """Return a number in [low, high] as a float; EnvConfigError for a bool or any other value."""
    is_real = isinstance(value, Real) and not isinstance(value, bool)
    if is_real and low <= value <= high:
        return float(value)
    raise EnvConfigError(
        f"{name} must be a number between {low:g} and {high:g}, got {shown(value)}"
    )


def whole_number(name: str, value: Any, low: int, high: float = LARGEST_WHOLE) -> int:
    """Return an int in [low, high]; EnvConfigError for a bool, float or any other value."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if whole and low <= int(value) <= high:
        return int(value)
    allowed = f"from {low} to {high}" if high < LARGEST_WHOLE else f"of at least {low}"
    raise EnvConfigError(f"{name} must be a whole number {allowed}, got {shown(value)}")


def true_or_false(name: str, value: Any) -> bool:
    """Return `value` if it is a bool; raise EnvConfigError, with the argument's `name`, if not."""
    if isinstance(value, bool):
        return value
    raise EnvConfigError(f"{name} must be True or False, got {shown(value)}")


def check_choice(name: str, value: Any, allowed: Iterable[str | None]) -> Any:
    """Return `value`; raise EnvConfigError, with the argument's `name`, if not in `allowed`."""
    choices = tuple(allowed)
    if (value is None or isinstance(value, str)) and value in choices:
        return value
    raise EnvConfigError(
        f"{name} must be one of {', '.join(map(repr, choices))}, got {shown(value)}"
    )


def some_of(name: str, value: Any, allowed: Iterable[str]) -> tuple[str, ...]:
    """Return the strings that argument `name` selects from `allowed`, in the order of `value`.

    Args:
        name: Name of the argument, for errors.
        value: One string, a list of strings, or None for all of `allowed`.
        allowed: Strings that may be selected.

    Raises:
        EnvConfigError: A string is not in `allowed`, the list is empty, or `value` is no list.
    """
    choices = tuple(allowed)
    if value is None:
        return choices
    chosen = (value,) if isinstance(value, str) else entries_of(name, value)
    for one in chosen:
        if not isinstance(one, str) or one not in choices:
            raise EnvConfigError(
                f"{name} must be some of {', '.join(map(repr, choices))}, got {shown(one)}"
            )
    if not chosen:
        raise EnvConfigError(f"{name} must name at least one of {', '.join(map(repr, choices))}")
    return chosen


def entries_of(name: str, value: Any) -> tuple[Any, ...]:
    """Return any sequence or set as a tuple; raise EnvConfigError for str, bytes and others."""
    if isinstance(value, Sequence | Set) and not isinstance(value, str | bytes):
        return tuple(value)
    raise EnvConfigError(f"{name} must be a list, got {shown(value)}")


def set_fields(record: object, **checked: Any) -> None:
    """Set the fields of a frozen dataclass instance that keyword arguments name."""
    for name, value in checked.items():
        object.__setattr__(record, name, value)


def shown(value: Any) -> str:
    """Return the `repr` of a value as one line; words for too large ints."""
    try:
        text = repr(value)
    except ValueError:  # Python refuses to convert integers of more than 4,300 digits.
        return "a number of too many digits"
    return " ".join(line.strip() for line in text.splitlines())


def reset_arguments(seed: Any, options: Any) -> tuple[int | None, Mapping[str, Any]]:
    """Return the pair (seed, options) for `reset`, with options of None replaced by {}.

    Raises EnvConfigError if the seed is neither None nor a whole number of at least 0, or if the
    options are neither None nor a mapping.
    """
    if options is not None and not isinstance(options, Mapping):
        raise EnvConfigError(f"options must be a mapping of names to values, got {shown(options)}")
    return None if seed is None else whole_number("seed", seed, low=0), options or {}


def asks_nothing(begun: bool, agents: Sequence[str], actions: Any) -> bool:
    """Check the actions of a step; return True if the step must return five empty dicts.

    As in PettingZoo's own games, this is a step without actions after the end of an episode.

    Args:
        begun: True after the first reset.
        agents: Agents of the running episode, empty after its end.
        actions: Argument of `step`.

    Raises:
        EnvError: No episode is running (except above), or keys of `actions` are not `agents`.
    """
    if agents and isinstance(actions, dict) and list(actions) == agents:
        return False  # the usual step, without the other checks
    if begun and not agents and isinstance(actions, Mapping) and not actions:
        return True
    if not agents:
        raise EnvError("step() without a running episode: call reset() first")
    if not isinstance(actions, Mapping):
        raise EnvError(f"actions must be a mapping agent -> action, got {shown(actions)}")
    for agent in agents:
        if agent not in actions:
            raise EnvError(f"no action for {agent}: step() needs one for each of {list(agents)}")
    if len(actions) > len(agents):
        unknown = next(agent for agent in actions if agent not in agents)
        raise EnvError(f"an action for {unknown!r}, which is not among {list(agents)}")
    return False


def parallel_form(constructor: Callable[P, T], passes_on_to: Callable[..., Any]) -> Callable[P, T]:
    """Return `constructor` with a signature that lists the names of its `**settings` too.

    `srl_envs.make` refuses arguments that are not in this signature.

    Args:
        constructor: Function with `**settings`. Its `__signature__` is set.
        passes_on_to: Function that receives `**settings`. Its keyword-only arguments are listed.
    """
    signature = inspect.signature(constructor)
    own = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
    others = inspect.signature(passes_on_to).parameters.values()
    named = [one for one in others if one.kind is one.KEYWORD_ONLY]
    signature = signature.replace(parameters=[*own, *named])
    constructor.__signature__ = signature  # type: ignore[attr-defined]
    return constructor


def is_loopback(host: str) -> bool:
    """Return True for "localhost" and loopback addresses; other host names are not resolved."""
    try:
        return host == "localhost" or ipaddress.ip_address(str(host).strip("[]")).is_loopback
    except ValueError:
        return False


def is_own_request(host: str, origin: str | None, names: Iterable[str] = ()) -> bool:
    """Return True if an HTTP request is not from a web page of another site.

    A page can map its own host name to this machine (DNS rebinding), but not an address. Only
    `localhost`, IP addresses and `names` are therefore valid hosts.

    Args:
        host: The Host header, empty if there is none, which is invalid.
        origin: The Origin header, None if there is none. It must have the same host and port as
            `host`.
        names: Further host names of the server.
    """
    own = {"localhost", *(each.lower().rstrip(".") for each in names)}
    try:
        parts = urlsplit(f"//{host}")
        name, _ = (parts.hostname or "").rstrip("."), parts.port
        if name not in own:
            ipaddress.ip_address(name)
        return origin is None or urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:  # A host name of another site, or an invalid host, port or origin.
        return False


def nearest(name: object, known: Iterable[str]) -> str:
    """Return the end of an error: `likely(name, known)`, then "; there are: a, b" (all names)."""
    names = tuple(known)
    return f"{likely(name, names)}; there are: {', '.join(names)}"


def likely(name: object, known: Iterable[str]) -> str:
    """Return " (did you mean 'a'?)" with the most similar of `known`, "" if none is similar."""
    close = get_close_matches(str(name), list(known), n=1, cutoff=0.5)
    return f" (did you mean {close[0]!r}?)" if close else ""
