"""Descriptions of observations in words, from their space and names for its fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from gymnasium import spaces

from srl_envs.errors import EnvConfigError
from srl_envs.validation import shown

Names = Sequence[str] | Mapping[Any, Any] | None
"""What an observation's parts are called; see `reader`."""
Reader = Callable[[Any], str]

LARGEST = 256  # numbers: more are a picture, which nobody reads as a list


def reader(space: spaces.Space[Any], names: Names = None, where: str = "the observation") -> Reader:
    """How observations of `space` read.

    `names` are, for a Discrete space, what each of its values is called; for a Box, MultiDiscrete
    or MultiBinary, what each entry is called in flat order; for a Dict or Tuple, a mapping from
    some of its parts (key or index) to the names of what is in them. Without names, values stand
    as numbers, a matrix row by row. Fractions are rounded to hundredths.

    Raises EnvConfigError, naming `where`, for names that do not fit the space, and for a space
    that does not read as words: other kinds, and more than LARGEST numbers.
    """
    if isinstance(space, spaces.Dict | spaces.Tuple):
        return _parts_reader(space, names, where)
    if isinstance(names, Mapping):
        raise EnvConfigError(
            f"fields: {where} is {space}, which has no parts: give names, not {names!r}"
        )
    if isinstance(space, spaces.Discrete):
        _require_as_many(names, int(space.n), space, where)
        return partial(_read_choice, names and tuple(names), int(space.start))
    if isinstance(space, spaces.Text):
        _require_as_many(names, 0, space, where)
        return str
    if isinstance(space, spaces.Box | spaces.MultiDiscrete | spaces.MultiBinary):
        return _array_reader(space, names, where)
    raise EnvConfigError(f"{where} is {space}, which does not read as words: give describe=")


def _parts_reader(space: spaces.Dict | spaces.Tuple[Any], names: Names, where: str) -> Reader:
    parts = space.spaces if isinstance(space, spaces.Dict) else dict(enumerate(space.spaces))
    named = {} if names is None else names
    if not isinstance(named, Mapping) or not set(named) <= set(parts):
        raise EnvConfigError(
            f"fields: {where} has the parts {', '.join(map(repr, parts))}: "
            f"give a mapping from some of these to names, got {names!r}"
        )
    readers = {
        key: reader(part, named.get(key), f"{where}[{key!r}]") for key, part in parts.items()
    }
    return partial(_read_parts, readers)


def _array_reader(
    space: spaces.Box | spaces.MultiDiscrete | spaces.MultiBinary, names: Names, where: str
) -> Reader:
    size = int(np.prod(space.shape))
    if size > LARGEST:
        raise EnvConfigError(
            f"{where} is {size} numbers, more than the {LARGEST} that read as words: give describe="
        )
    _require_as_many(names, size, space, where)
    if names is None:
        return _rows
    read = _read_switches if isinstance(space, spaces.MultiBinary) else _read_entries
    return partial(read, tuple(names))


# Readers are partials of functions, which unlike closures can be pickled.


def _read_choice(words: Sequence[str] | None, first: int, value: Any) -> str:
    return words[int(value) - first] if words else str(int(value))


def _read_parts(readers: Mapping[Any, Reader], value: Any) -> str:
    lines = ((str(key).replace("_", " "), say(value[key])) for key, say in readers.items())
    return "\n".join(f"{label}:{beside(words)}" for label, words in lines)


def _read_switches(words: Sequence[str], value: Any) -> str:
    return ", ".join(word for word, on in zip(words, np.ravel(value), strict=True) if on) or "none"


def _read_entries(words: Sequence[str], value: Any) -> str:
    entries = zip(words, np.ravel(value), strict=True)
    return ", ".join(f"{word} {_number(entry)}" for word, entry in entries)


def _require_as_many(names: Names, wanted: int, space: spaces.Space[Any], where: str) -> None:
    if names is None:
        return
    listed = isinstance(names, Sequence) and not isinstance(names, str)
    if not listed or len(names) != wanted or not all(isinstance(name, str) for name in names):
        raise EnvConfigError(f"fields: {where} is {space}: give {wanted} names, got {shown(names)}")


def _rows(value: Any) -> str:
    """A vector on one line, a matrix row by row, and more dimensions plane by plane of the last."""
    array = np.asarray(value)
    if array.ndim < 2:
        return " ".join(map(_number, array.reshape(-1)))
    if array.ndim == 2:
        return "\n".join(map(_rows, array))
    planes = np.moveaxis(array, -1, 0)
    return "\n".join(f"plane {number}:\n{_rows(plane)}" for number, plane in enumerate(planes, 1))


def _number(value: Any) -> str:
    return f"{round(float(value), 2) + 0.0:g}"  # + 0.0: nothing is called -0


def beside(words: str) -> str:
    """What stands after a label: on its line, or below it where there are several lines."""
    return f"\n{words}" if "\n" in words else f" {words}"
