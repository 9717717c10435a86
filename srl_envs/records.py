"""Conversion of plain data and dataclasses to JSON data and back."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

_TAG = "__numpy__"


def is_plain(value: Any) -> bool:
    """Return True if `decode(encode(value))` is equal to the value."""
    if isinstance(value, Mapping):
        return all(is_plain(key) and is_plain(entry) for key, entry in value.items())
    if isinstance(value, (list, tuple)):
        return all(map(is_plain, value))
    if isinstance(value, (np.ndarray, np.generic)):
        return value.dtype.kind in "biuf"
    return value is None or isinstance(value, (bool, int, float, str))


def encode(value: Any) -> Any:
    """Return the value as JSON data. Values that are not `is_plain` are returned unchanged."""
    if isinstance(value, np.ndarray):
        data = value.ravel().tolist()
        return {_TAG: "array", "dtype": value.dtype.str, "shape": value.shape, "data": data}
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
    """Return the value of JSON data that `encode` returned; see `read_record` for errors."""
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
    """Return a vector of bounded memory; raise ValueError or TypeError if data and dtype differ."""
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
    """Return `value`; raise TypeError or OverflowError if it is no number or too large."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r:.80} is no number")
    float(value)
    return value


def checked(kind: type[Any], value: Any) -> Any:
    """Return `value`; raise TypeError if it is no instance of `kind`. A bool is no int."""
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise TypeError(f"{value!r:.80} is no {kind.__name__}")
    return value


T = TypeVar("T")


class _Form(NamedTuple):
    """Functions that convert the values of a type to JSON data (`write`) and back (`read`)."""

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


def as_record(kind: type[T], value: T) -> dict[str, Any]:
    """Return the fields of a dataclass object, in order, as JSON data."""
    record: dict[str, Any] = _form_of(kind).write(value)  # type: ignore[arg-type]
    return record


def read_record(kind: type[T], record: Any) -> T:
    """Return the dataclass object of a record from `as_record`. Unknown keys are ignored.

    Raises:
        LookupError, TypeError, ValueError, ArithmeticError: A field is missing or has another type.
    """
    found: T = _form_of(kind).read(record)  # type: ignore[arg-type]
    return found


@functools.cache
def _form_of(kind: Any) -> _Form:
    of, parts = get_origin(kind), get_args(kind)
    if kind in (str, int, bool):
        return _Form(_same, functools.partial(checked, kind))
    if kind is float:
        return _Form(_same, number)
    if of is Literal:
        return _Form(_same, functools.partial(_among, parts))
    if is_dataclass(kind):
        types = get_type_hints(kind)
        return _of_fields(kind, {field.name: _form_of(types[field.name]) for field in fields(kind)})
    if of in (Union, UnionType):
        return _of_union(parts)
    if of is tuple:
        return _of_tuple(_form_of(parts[0]), None if parts[-1] is ... else len(parts))
    if of in (Mapping, dict) and parts[1] is not Any:
        own = _form_of(parts[1])
        return _Form(
            lambda value: {key: own.write(one) for key, one in value.items()},
            lambda value: {
                checked(str, key): own.read(one) for key, one in checked(dict, value).items()
            },
        )
    plain = object if kind is Any else of or kind
    return _Form(encode, lambda value: checked(plain, decode(value)))


def _of_fields(kind: Any, own: Mapping[str, _Form]) -> _Form:
    def read(value: Any) -> Any:
        record = checked(dict, value)
        return kind(**{name: form.read(record[name]) for name, form in own.items()})

    return _Form(
        lambda value: {name: form.write(getattr(value, name)) for name, form in own.items()}, read
    )


def _of_union(parts: tuple[Any, ...]) -> _Form:
    """Return the form of an optional type, or of a union of plain types."""
    *others, last = (_form_of(part) for part in parts if part is not NoneType)

    def read(value: Any) -> Any:
        if value is None and NoneType in parts:
            return None
        for form in others:
            with suppress(TypeError):
                return form.read(value)
        return last.read(value)

    return _Form(lambda value: None if value is None else last.write(value), read)


def _of_tuple(every: _Form, length: int | None) -> _Form:
    def read(value: Any) -> tuple[Any, ...]:
        found = tuple(map(every.read, checked(list, value)))
        if length not in (None, len(found)):
            raise ValueError(f"{len(found)} entries, not {length}")
        return found

    plain = every.write is _same  # Fast path for thousands of tokens.
    return _Form(list if plain else lambda value: [*map(every.write, value)], read)


def _same(value: Any) -> Any:
    return value


def _among(allowed: tuple[Any, ...], value: Any) -> Any:
    if value not in allowed:
        raise ValueError(f"{value!r:.80} is none of {', '.join(allowed)}")
    return value
