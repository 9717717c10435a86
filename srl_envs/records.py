"""Conversion of plain data and dataclasses to JSON data and back."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

_TAG = "__numpy__"


def is_plain(value: Any) -> bool:
    """Return True for None, bool, int, float, str, and lists, tuples and mappings of these.

    NumPy arrays and scalars of bools, ints or floats are plain, too. `decode` restores equal values
    from the JSON text of `encode(value)`, except of `np.longdouble`, which JSON cannot contain.
    """
    if isinstance(value, Mapping):
        return all(is_plain(key) and is_plain(entry) for key, entry in value.items())
    if isinstance(value, (list, tuple)):
        return all(map(is_plain, value))
    if isinstance(value, (np.ndarray, np.generic)):
        return value.dtype.kind in "biuf"
    return value is None or isinstance(value, (bool, int, float, str))


def encode(value: Any) -> Any:
    """Return a value as data for `json.dumps`; dataclasses and other objects are unchanged.

    Arrays, NumPy scalars and tuples become dicts with the key "__numpy__", as do mappings with this
    key or keys other than str. Lists and other mappings are converted entry by entry.
    """
    if isinstance(value, np.ndarray):
        data = value.ravel().tolist()
        return {_TAG: "array", "dtype": value.dtype.str, "shape": list(value.shape), "data": data}
    if isinstance(value, np.generic):
        return {_TAG: "scalar", "dtype": value.dtype.str, "data": value.item()}
    if isinstance(value, tuple):
        return {_TAG: "tuple", "data": [encode(entry) for entry in value]}
    if isinstance(value, Mapping):
        if _TAG in value or not all(isinstance(key, str) for key in value):
            pairs = [[encode(key), encode(entry)] for key, entry in value.items()]
            return {_TAG: "mapping", "data": pairs}
        return {key: encode(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [encode(entry) for entry in value]
    return value


def decode(value: Any) -> Any:
    """Return the value that `encode` converted, given the data after json.dumps and json.loads.

    Raises LookupError, TypeError, ValueError or ArithmeticError for malformed data.
    """
    if isinstance(value, dict):
        tag = value.get(_TAG)
        if tag == "array":
            shape = tuple(checked(int, size) for size in checked(list, value["shape"]))
            if min(shape, default=0) < 0:
                raise ValueError(f"a shape must not be negative, got {shape}")
            return _array(checked(list, value["data"]), value["dtype"]).reshape(shape)
        if tag == "scalar":
            return _array([value["data"]], value["dtype"])[0]
        if tag == "tuple":
            return tuple(decode(entry) for entry in checked(list, value["data"]))
        if tag == "mapping":
            return {decode(key): decode(entry) for key, entry in value["data"]}
        return {key: decode(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [decode(entry) for entry in value]
    return value


_KINDS: dict[str, tuple[type, ...]] = {
    "b": (bool,), "i": (int,), "u": (int,), "f": (int, float), "U": (str,)
}  # fmt: skip
"""Types in JSON of the entries of an array, by kind of its dtype. Other kinds are refused."""
_DTYPE = re.compile(r"(?:[<>|](?:b1|[iu][1248]|f[248])|[<>]U(\d{1,9}))")


def _array(data: list[Any], dtype: Any) -> np.ndarray:
    known = _DTYPE.fullmatch(checked(str, dtype))
    if known is None:
        raise ValueError(f"unknown dtype {dtype!r:.40}")
    allowed = _KINDS[dtype[1]]
    for entry in data:
        if not isinstance(entry, allowed) or (isinstance(entry, bool) and bool not in allowed):
            raise TypeError(f"{entry!r:.40} does not fit into an array of {dtype}")
    if known[1] and int(known[1]) > max(map(len, data), default=1):
        raise ValueError(f"the dtype {dtype} is longer than all texts of the array")
    with np.errstate(over="raise"):
        return np.array(data, dtype=dtype)


def number(value: Any) -> float:
    """Return an int or float unchanged.

    Raises TypeError for a bool or another type, OverflowError for an int too large for a float.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r:.80} is no number")
    float(value)
    return value


def checked(kind: type[Any], value: Any) -> Any:
    """Return `value`; raise TypeError if it is no instance of `kind`, or a bool for `int`."""
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise TypeError(f"{value!r:.80} is no {kind.__name__}")
    return value


T = TypeVar("T")


PLAIN = (str, int, bool, float)


def as_record(kind: Any, value: Any) -> Any:
    """Return a value of type `kind` as JSON data for `read_record`.

    `kind` is a dataclass, str, int, bool, float, or a tuple (of one type), mapping or union.
    Dataclasses become dicts, tuples become lists. In unions, values other than None are converted
    as the last type except None. Values of Any and other classes are passed to `encode`.
    """
    of, parts = get_origin(kind), get_args(kind)
    if hasattr(kind, "__dataclass_fields__"):
        types = _types_of(kind)
        return {name: as_record(each, getattr(value, name)) for name, each in types.items()}
    if of in (Union, UnionType):
        last = [part for part in parts if part is not NoneType][-1]
        return None if value is None else as_record(last, value)
    if of is tuple:  # Thousands of tokens are copied at once.
        return list(value) if parts[0] in PLAIN else [as_record(parts[0], one) for one in value]
    if of in (Mapping, dict) and parts[1] is not Any:
        return {key: as_record(parts[1], one) for key, one in value.items()}
    return value if kind in PLAIN or of is Literal else encode(value)


def read_record(kind: type[T], record: Any) -> T:
    """Return the value of type `kind` whose record `as_record` returned. Unknown keys are ignored.

    Raises LookupError, TypeError, ValueError or ArithmeticError for invalid fields and for missing
    ones, also those with defaults.
    """
    return _read(kind, record)  # type: ignore[no-any-return]


def _read(kind: Any, value: Any) -> Any:
    if kind in PLAIN:
        return number(value) if kind is float else checked(kind, value)
    of, parts = get_origin(kind), get_args(kind)
    if hasattr(kind, "__dataclass_fields__"):
        record = checked(dict, value)
        return kind(**{name: _read(each, record[name]) for name, each in _types_of(kind).items()})
    if of in (Union, UnionType):
        if value is None and NoneType in parts:
            return None
        *others, last = (part for part in parts if part is not NoneType)
        for other in others:
            with suppress(TypeError):
                return _read(other, value)
        return _read(last, value)
    if of is tuple:
        read = functools.partial(checked if parts[0] in (str, int, bool) else _read, parts[0])
        found = tuple(map(number if parts[0] is float else read, checked(list, value)))
        if parts[-1] is not ... and len(found) != len(parts):
            raise ValueError(f"{len(found)} entries, not {len(parts)}")
        return found
    if of in (Mapping, dict) and parts[1] is not Any:
        pairs = checked(dict, value).items()
        return {checked(str, key): _read(parts[1], one) for key, one in pairs}
    if of is Literal:
        if value not in parts:
            raise ValueError(f"{value!r:.80} is none of {', '.join(parts)}")
        return value
    return checked(object if kind is Any else of or kind, decode(value))


@functools.cache
def _types_of(kind: Any) -> dict[str, Any]:
    types = get_type_hints(kind)
    return {field.name: types[field.name] for field in fields(kind)}
