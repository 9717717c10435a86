"""Values on the wire: plain data to messages and back, without loss.

What is read may be anybody's: it names no code, and is no larger than its message, or is refused.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from srl_envs.remote.errors import WireError
from srl_envs.remote.protocol import environments_pb2 as pb

DTYPE = re.compile(r"[<>|](?:b1|[iu][1248]|f[248])")
"""Arrays hold truth values, whole numbers or floats; nothing else is written or read."""
WHOLE = 2**63
LARGEST = 1024
"""Bytes of a whole number."""
MOST_ALIKE = 2**18
"""Arrays and mappings that the compact lists of one value may stand for: a few bytes are an array
there, and columns within columns a mapping at every level."""


def to_value(value: Any) -> pb.Value:
    """The message of a value; see `write`."""
    message = pb.Value()
    write(value, message)
    return message


def write(value: Any, message: pb.Value) -> None:
    """Write a value into a message, in place: None, bool, int, float, str, lists, tuples, mappings,
    NumPy arrays and numbers.

    Raises WireError for anything else.
    """
    writer = _WRITERS.get(type(value))
    if writer is None:  # subclasses, such as np.float64 of float: NumPy's first
        writer = next((own for kind, own in _WRITERS.items() if isinstance(value, kind)), None)
    if writer is None:
        raise WireError(f"{value!r:.80} is a {type(value).__name__}, which has no form on the wire")
    writer(value, message)


class Room:
    """How much the compact lists of the values that are read together may still stand for."""

    def __init__(self) -> None:
        self._left = MOST_ALIKE

    def take(self, count: int) -> None:
        """Take so much of it. Raises WireError where there is less."""
        self._left -= count
        if self._left < 0:
            raise WireError(f"lists of what is alike stand for more than {MOST_ALIKE} values")


def from_value(message: pb.Value, room: Room | None = None) -> Any:
    """The value of a message; arrays are the caller's own. Raises WireError for what is none.

    `room` is what it shares with other values of a call.
    """
    kind = message.WhichOneof("kind")
    if kind is None:
        raise WireError("a value is missing")
    told = getattr(message, kind)
    if kind in _READERS:
        return _READERS[kind](told)
    return _NESTED_READERS[kind](told, room or Room())


def to_array(array: np.ndarray) -> pb.Array:
    """The message of an array. Raises WireError for one of objects, texts or the like."""
    message = pb.Array()
    _write_array(array, message)
    return message


def from_array(message: pb.Array) -> np.ndarray:
    """The array of a message, the caller's own. Raises WireError where the parts do not fit."""
    dtype, shape, data = _dtype(message.dtype), tuple(message.shape), message.data
    try:
        if math.prod(shape) * dtype.itemsize != len(data):
            raise ValueError("another size")
        return np.ndarray(shape, dtype, bytearray(data))  # which can be written to
    except (ValueError, OverflowError) as error:
        raise WireError(f"{len(data)} bytes of {dtype} are no {shape}") from error


def mapping_of(message: pb.Value, what: str) -> dict[str, Any]:
    """A mapping with keys of text. Raises WireError, naming `what`, for any other value."""
    if message.WhichOneof("kind") != "mapping":
        raise WireError(f"{what} must be a mapping of names to values")
    return _from_mapping(message.mapping, Room())


@functools.lru_cache(maxsize=64)
def _dtype(name: str) -> np.dtype[Any]:
    if not DTYPE.fullmatch(name):
        raise WireError(f"arrays of {name!r:.40} are not read")
    return np.dtype(name)


@functools.lru_cache(maxsize=64)
def _name(dtype: np.dtype[Any]) -> str:
    name: str = dtype.str
    if not DTYPE.fullmatch(name):
        raise WireError(f"an array of {dtype} has no form on the wire")
    return name


def _write_array(array: np.ndarray, message: pb.Array) -> None:
    message.dtype = _name(array.dtype)
    message.shape.extend(array.shape)
    message.data = array.tobytes()


def _write_mapping(given: Mapping[Any, Any], message: pb.Value) -> None:
    if not all(isinstance(key, str) for key in given):
        _write_items([part for pair in given.items() for part in pair], message.pairs)
        return
    mapping = message.mapping
    mapping.SetInParent()
    mapping.names.extend(given)
    for value in given.values():
        write(value, mapping.values.add())


def _write_items(items: Sequence[Any], message: pb.Items) -> None:
    message.SetInParent()
    for item in items:
        write(item, message.items.add())


def _write_list(items: Sequence[Any], message: pb.Value) -> None:
    """The compact form of things that are alike where there is one, else one after another."""
    kinds = set(map(type, items))
    if len(kinds) == 1:
        compact = _COMPACT.get(kinds.pop())
        if compact is not None and compact(items, message):
            return
    _write_items(items, message.list)


def _write_rows(arrays: Sequence[np.ndarray], message: pb.Value) -> bool:
    dtype, shape = arrays[0].dtype, arrays[0].shape
    if 0 in shape or any(one.dtype != dtype or one.shape != shape for one in arrays):
        return False
    rows = message.rows
    rows.dtype = _name(dtype)
    rows.shape.extend((len(arrays), *shape))
    rows.data = b"".join([one.tobytes() for one in arrays])
    return True


def _write_numbers(numbers: Sequence[float], message: pb.Value) -> bool:
    message.numbers.numbers.extend(numbers)
    return True


def _write_columns(mappings: Sequence[Mapping[Any, Any]], message: pb.Value) -> bool:
    names = list(mappings[0])
    alike = all(list(one) == names for one in mappings)
    if not names or not alike or not all(isinstance(name, str) for name in names):
        return False
    message.columns.names.extend(names)
    for name in names:
        _write_list([one[name] for one in mappings], message.columns.values.add())
    return True


def _from_rows(message: pb.Array, room: Room) -> list[np.ndarray]:
    rows = from_array(message)
    if not rows.size:  # nothing counts them then but a number, which may be any
        raise WireError(f"rows of shape {rows.shape} are empty")
    room.take(len(rows))
    return [rows[row, ...].copy() for row in range(len(rows))]


def _from_columns(mapping: pb.Mapping, room: Room) -> list[dict[str, Any]]:
    columns = _from_mapping(mapping, room)
    if not columns or not all(isinstance(column, list) for column in columns.values()):
        raise WireError("columns must be lists, at least one")
    room.take(max(map(len, columns.values())))
    try:
        rows = list(zip(*columns.values(), strict=True))
    except ValueError as error:
        raise WireError("columns must be of one length") from error
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _write_whole(value: int, message: pb.Value) -> None:
    if -WHOLE <= value < WHOLE:
        message.whole = value
        return
    size = int(value).bit_length() // 8 + 1
    if size > LARGEST:
        raise WireError(f"a number of {8 * size} binary digits has no form on the wire")
    message.large = int(value).to_bytes(size, "little", signed=True)


def _write_text(text: str, message: pb.Value) -> None:
    try:
        message.text = text
    except ValueError as error:  # a lone surrogate, which a model may write
        raise WireError(f"{text!r:.80} is no text of Unicode") from error


def _writing(field: str) -> Callable[[Any, pb.Value], None]:
    return lambda value, message: setattr(message, field, value)


def _from_large(data: bytes) -> int:
    if len(data) > LARGEST:
        raise WireError(f"a number of {len(data)} bytes is not read, at most {LARGEST}")
    return int.from_bytes(data, "little", signed=True)


def _from_items(items: pb.Items, room: Room) -> list[Any]:
    return [from_value(item, room) for item in items.items]


def _from_mapping(mapping: pb.Mapping, room: Room) -> dict[str, Any]:
    values = [from_value(value, room) for value in mapping.values]
    if len(values) != len(mapping.names):
        raise WireError(f"{len(mapping.names)} names and {len(values)} values are no mapping")
    return dict(zip(mapping.names, values, strict=True))


def _from_pairs(items: pb.Items, room: Room) -> dict[Any, Any]:
    parts = _from_items(items, room)
    try:
        return dict(zip(parts[::2], parts[1::2], strict=True))
    except (TypeError, ValueError) as error:  # a list as a key, or a key without a value
        raise WireError(f"{len(parts)} values are no pairs of a mapping") from error


_WRITERS: dict[type, Callable[[Any, pb.Value], None]] = {
    np.ndarray: lambda array, message: _write_array(array, message.array),
    np.generic: lambda number, message: _write_array(np.asarray(number), message.scalar),
    bool: _writing("flag"),
    int: _write_whole,
    float: _writing("number"),
    str: _write_text,
    tuple: lambda items, message: _write_items(items, message.tuple),
    list: _write_list,
    dict: _write_mapping,
    Mapping: _write_mapping,
    type(None): lambda none, message: setattr(message, "none", True),
}
_COMPACT: dict[type, Callable[[Any, pb.Value], bool]] = {
    np.ndarray: _write_rows,
    float: _write_numbers,
    dict: _write_columns,
}
"""Kind of what a list holds -> writes it compactly, or says that it is not alike."""
_READERS: dict[str, Callable[[Any], Any]] = {
    "none": lambda none: None,
    "flag": bool,
    "whole": int,
    "number": float,
    "text": str,
    "array": from_array,
    "scalar": lambda array: from_array(array)[()],
    "numbers": lambda numbers: list(numbers.numbers),
    "large": _from_large,
}
_NESTED_READERS: dict[str, Callable[[Any, Room], Any]] = {
    "list": _from_items,
    "tuple": lambda items, room: tuple(_from_items(items, room)),
    "mapping": _from_mapping,
    "rows": _from_rows,
    "columns": _from_columns,
    "pairs": _from_pairs,
}
