"""Tagged JSON: plain data without loss (arrays, NumPy scalars, tuples, any keys).

What is read may be anybody's: everything is of the type that `encode` writes, and no larger than
its record, or is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

_TAG = "__numpy__"


def is_plain(value: Any) -> bool:
    """Whether a record can hold the value and give an equal one back."""
    if isinstance(value, Mapping):
        return all(is_plain(key) and is_plain(entry) for key, entry in value.items())
    if isinstance(value, (list, tuple)):
        return all(map(is_plain, value))
    if isinstance(value, (np.ndarray, np.generic)):
        return value.dtype.kind in "biuf"
    return value is None or isinstance(value, (bool, int, float, str))


def encode(value: Any) -> Any:
    """The value as JSON holds it; what `is_plain` refuses is left for json to refuse."""
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
    """The value that `encode` was given.

    Raises LookupError, TypeError, ValueError or ArithmeticError for what it never writes.
    """
    if isinstance(value, dict):
        tag = value.get(_TAG)
        if tag == "array":
            shape = whole_numbers(value["shape"])
            if min(shape, default=0) < 0:
                raise ValueError(f"{shape} is no shape")
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
"""Kind of an array -> what its data are in JSON; no other kind is read."""
_DTYPE = re.compile(r"(?:[<>|](?:b1|[iu][1248]|f[248])|[<>]U(\d{1,9}))")


def _array(data: list[Any], dtype: Any) -> np.ndarray:
    """The data in one dimension: no larger than they are in the record."""
    known = _DTYPE.fullmatch(checked(str, dtype))
    if known is None:
        raise ValueError(f"arrays of {dtype!r:.40} are not read")
    allowed = _KINDS[dtype[1]]
    for entry in data:
        if not isinstance(entry, allowed) or (isinstance(entry, bool) and bool not in allowed):
            raise TypeError(f"{entry!r:.40} does not fit into an array of {dtype}")
    if known[1] and int(known[1]) > max(map(len, data), default=1):
        raise ValueError(f"no text of an array of {dtype} is that long")
    with np.errstate(over="raise"):
        return np.array(data, dtype=dtype)


def whole_numbers(value: Any) -> tuple[int, ...]:
    """A list of whole numbers, as a tuple."""
    return tuple(checked(int, each) for each in checked(list, value))


def number(value: Any) -> float:
    """A number as it was written, whole ones too, that a float can hold."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r:.80} is no number")
    float(value)
    return value


def checked(kind: type[Any], value: Any) -> Any:
    """The value, which is of the type; TypeError where it is not."""
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise TypeError(f"{value!r:.80} is no {kind.__name__}")
    return value
