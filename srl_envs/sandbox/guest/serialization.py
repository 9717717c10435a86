"""Serialization of plain data between a program and the process that runs it.

Plain data are None, bool, int (of up to 4,300 digits), float, str, bytes, list, tuple, dict, set
and frozenset, nested. Objects of other classes cannot be written or read, so no pickle, constructor
or `__eq__` of the program runs in the reading process. The format is JSON. A type that JSON lacks
is a JSON object with a key of `_TAGS`.
"""

from __future__ import annotations

import json
from itertools import groupby
from typing import Any

from srl_envs.errors import EnvError
from srl_envs.untrusted import MAX_DIGITS, MAX_NESTING

COLLISIONS = 64  # equal hashes among keys: more are an attempt to make a dict slow
_BEYOND = 10**MAX_DIGITS


class NotPlainError(EnvError, ValueError):
    """Value that is not plain data, or invalid data from a program."""


def dumps(value: Any) -> bytes:
    """Return plain data (see the module) as one line of JSON bytes, without a line feed.

    An object of a subclass is written as its base class, and a bytearray as bytes. Raises
    NotPlainError for other and too deeply nested objects.
    """
    try:
        return json.dumps(_packed(value, MAX_NESTING), separators=(",", ":")).encode("ascii")
    except (ValueError, RecursionError) as error:
        raise NotPlainError(f"not plain data: {str(error) or type(error).__name__}") from error


def loads(line: bytes) -> Any:
    """Return the value of an untrusted line of `dumps`; raise NotPlainError if it is invalid."""
    try:
        return _unpacked(json.loads(line), MAX_NESTING)
    except (ValueError, TypeError, RecursionError, OverflowError) as error:
        raise NotPlainError(f"unreadable: {type(error).__name__}: {error}"[:200]) from error


def same(expected: Any, got: Any) -> bool:
    """Return True if two plain values are equal in value and in type, all the way down.

    `True` is not `1`, and `1` is not `1.0`. NaN equals NaN, and 0.0 equals -0.0. The order of dicts
    and sets does not matter.
    """
    return bool(_typed(expected) == _typed(got))


def _typed(value: Any) -> Any:
    if isinstance(value, float):
        return float, repr(value + 0.0)  # -0.0 is 0.0
    if isinstance(value, list | tuple):
        return type(value), tuple(map(_typed, value))
    if isinstance(value, dict):
        return dict, frozenset((_typed(key), _typed(entry)) for key, entry in value.items())
    if isinstance(value, set | frozenset):
        return type(value), frozenset(map(_typed, value))
    return type(value), value


def _packed(value: Any, depth: int) -> Any:
    # Subclasses, such as Counter or a named tuple, are written as their base class.
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        whole = int(value)
        if not -_BEYOND < whole < _BEYOND:
            raise NotPlainError(f"not plain data: an integer of more than {MAX_DIGITS} digits")
        return whole
    if isinstance(value, float):
        return float(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bytes | bytearray):
        return {"b": bytes(value).hex()}
    if depth == 0:
        raise NotPlainError(f"not plain data: nested deeper than {MAX_NESTING}")
    if isinstance(value, list):
        return [_packed(part, depth - 1) for part in value]
    if isinstance(value, dict):
        return {"d": [[_packed(k, depth - 1), _packed(v, depth - 1)] for k, v in value.items()]}
    for tag, kind in (("t", tuple), ("s", set), ("f", frozenset)):
        if isinstance(value, kind):
            return {tag: [_packed(part, depth - 1) for part in value]}
    raise NotPlainError(f"not plain data: an object of type {type(value).__name__}")


def _unpacked(packed: Any, depth: int) -> Any:
    if packed is None or isinstance(packed, bool | float | str):
        return packed
    if isinstance(packed, int):
        if not -_BEYOND < packed < _BEYOND:
            raise ValueError(f"an integer of more than {MAX_DIGITS} digits")
        return packed
    if depth == 0 and not (isinstance(packed, dict) and packed.keys() == {"b"}):
        raise ValueError(f"nested deeper than {MAX_NESTING}")
    if isinstance(packed, list):
        return [_unpacked(part, depth - 1) for part in packed]
    [(tag, inner)] = packed.items()
    if tag not in _TAGS:
        raise ValueError(f"unknown tag {tag[:10]!r}")
    if not isinstance(inner, _TAGS[tag]):
        raise ValueError(f"wrong content for tag {tag!r}")
    if tag == "b":
        return bytes.fromhex(inner)
    if tag == "d":
        pairs = [(_unpacked(key, depth - 1), _unpacked(value, depth - 1)) for key, value in inner]
        _hashable([key for key, _ in pairs])
        return dict(pairs)
    parts = [_unpacked(part, depth - 1) for part in inner]
    if tag == "t":
        return tuple(parts)
    return (set if tag == "s" else frozenset)(_hashable(parts))


def _hashable(keys: list[Any]) -> list[Any]:
    if len(keys) > COLLISIONS:
        runs = groupby(sorted(map(hash, keys)))
        if max(sum(1 for _ in run) for _, run in runs) > COLLISIONS:
            raise ValueError("too many keys of one hash")
    return keys


_TAGS: dict[str, type[Any]] = dict.fromkeys("dtsf", list) | {"b": str}
"""Tag (bytes, dict, tuple, set, frozenset) -> JSON type of the content."""
