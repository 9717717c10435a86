"""Values on the wire: plain data to messages and back, without loss.

What is read may be anybody's: it names no code, and is no larger than its message, or is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from srl_envs.remote.errors import WireError
from srl_envs.remote.protocol import environments_pb2 as pb

DTYPE = re.compile(r"[<>|](?:b1|[iu][1248]|f[248])")
"""Arrays hold truth values, whole numbers or floats; nothing else is written or read."""
WHOLE = 2**63
LARGEST = 1024
"""Bytes of a whole number."""


def to_value(value: Any) -> pb.Value:
    """The message of a value: None, bool, int, float, str, lists, tuples, mappings with keys of
    text or whole numbers, NumPy arrays and numbers.

    Raises WireError for anything else.
    """
    write = _WRITERS.get(type(value))
    if write is not None:
        return write(value)
    for kind, write in _WRITERS.items():  # subclasses, such as np.float64 of float, NumPy's first
        if isinstance(value, kind):
            return write(value)
    raise WireError(f"{value!r:.80} is a {type(value).__name__}, which has no form on the wire")


def from_value(message: pb.Value) -> Any:
    """The value of a message; arrays are the caller's own. Raises WireError for what is none."""
    kind = message.WhichOneof("kind")
    if kind is None:
        raise WireError("a value is missing")
    return _READERS[kind](getattr(message, kind))


def to_array(array: np.ndarray) -> pb.Array:
    """The message of an array. Raises WireError for one of objects, texts or the like."""
    dtype = array.dtype.str
    if not DTYPE.fullmatch(dtype):
        raise WireError(f"an array of {array.dtype} has no form on the wire")
    return pb.Array(dtype=dtype, shape=array.shape, data=array.tobytes())


def from_array(message: pb.Array) -> np.ndarray:
    """The array of a message, the caller's own. Raises WireError where the parts do not fit."""
    if not DTYPE.fullmatch(message.dtype):
        raise WireError(f"arrays of {message.dtype!r:.40} are not read")
    shape = tuple(message.shape)
    try:
        return np.frombuffer(message.data, message.dtype).reshape(shape).copy()
    except (ValueError, OverflowError) as error:
        raise WireError(f"{len(message.data)} bytes of {message.dtype} are no {shape}") from error


def to_mapping(given: Mapping[Any, Any]) -> pb.Value:
    """The message of a mapping, in its order."""
    value = pb.Value()
    entries = value.mapping.entries
    value.mapping.SetInParent()
    for key, entry in given.items():
        if isinstance(key, str):
            entries.add(name=key, value=to_value(entry))
        elif isinstance(key, int) and not isinstance(key, bool) and -WHOLE <= key < WHOLE:
            entries.add(number=key, value=to_value(entry))
        else:
            raise WireError(f"the key {key!r:.80} has no form on the wire")
    return value


def mapping_of(message: pb.Value, what: str) -> dict[str, Any]:
    """A mapping with keys of text. Raises WireError, naming `what`, for any other value."""
    value = from_value(message)
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise WireError(f"{what} must be a mapping of names to values, got {value!r:.80}")
    return value


def _to_whole(value: int) -> pb.Value:
    value = int(value)
    if -WHOLE <= value < WHOLE:
        return pb.Value(whole=value)
    size = value.bit_length() // 8 + 1
    if size > LARGEST:
        raise WireError(f"a number of {value.bit_length()} binary digits has no form on the wire")
    return pb.Value(large=value.to_bytes(size, "little", signed=True))


def _from_large(data: bytes) -> int:
    if len(data) > LARGEST:
        raise WireError(f"a number of {len(data)} bytes is not read, at most {LARGEST}")
    return int.from_bytes(data, "little", signed=True)


def _to_text(text: str) -> pb.Value:
    try:
        return pb.Value(text=text)
    except ValueError as error:  # a lone surrogate, which a model may write
        raise WireError(f"{text!r:.80} is no text of Unicode") from error


def _to_items(kind: str) -> Callable[[Any], pb.Value]:
    return lambda items: pb.Value(**{kind: pb.Items(items=map(to_value, items))})


def _entry(entry: pb.Entry) -> Any:
    kind = entry.WhichOneof("key")
    if kind is None:
        raise WireError("an entry of a mapping has no key")
    return getattr(entry, kind)


_WRITERS: dict[type, Callable[[Any], pb.Value]] = {
    np.ndarray: lambda array: pb.Value(array=to_array(array)),
    np.generic: lambda number: pb.Value(scalar=to_array(np.asarray(number))),
    bool: lambda flag: pb.Value(flag=flag),
    int: _to_whole,
    float: lambda number: pb.Value(number=number),
    str: _to_text,
    tuple: _to_items("tuple"),
    list: _to_items("list"),
    Mapping: to_mapping,
    dict: to_mapping,
    type(None): lambda none: pb.Value(none=True),
}
_READERS: dict[str, Callable[[Any], Any]] = {
    "none": lambda none: None,
    "flag": bool,
    "whole": int,
    "number": float,
    "text": str,
    "array": from_array,
    "scalar": lambda array: from_array(array)[()],
    "list": lambda items: [from_value(item) for item in items.items],
    "tuple": lambda items: tuple(from_value(item) for item in items.items),
    "mapping": lambda mapping: {_entry(one): from_value(one.value) for one in mapping.entries},
    "large": _from_large,
}
