"""Records: dataclasses as plain data for JSON and back, each field by its type.

Texts, numbers and other dataclasses stand as they are, tuples and mappings of these as lists and
objects, and values of any other type tagged (tagged_json). What is read may be anybody's.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from srl_envs.loading.tagged_json import checked, decode, encode, number

T = TypeVar("T")


class _Form(NamedTuple):
    """How values of a type are written and read."""

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


def as_record(kind: type[T], value: T) -> dict[str, Any]:
    """The fields of the dataclass `kind` as plain data, in their order."""
    record: dict[str, Any] = _form_of(kind).write(value)  # type: ignore[arg-type]
    return record


def read_record(kind: type[T], record: Any) -> T:
    """The dataclass `kind` from what `as_record` gave; what else is in the record is not read.

    Raises LookupError, TypeError, ValueError or ArithmeticError for what it never gives.
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
    held = object if kind is Any else of or kind
    return _Form(encode, lambda value: checked(held, decode(value)))


def _of_fields(kind: Any, own: Mapping[str, _Form]) -> _Form:
    def read(value: Any) -> Any:
        record = checked(dict, value)
        return kind(**{name: form.read(record[name]) for name, form in own.items()})

    return _Form(
        lambda value: {name: form.write(getattr(value, name)) for name, form in own.items()}, read
    )


def _of_union(parts: tuple[Any, ...]) -> _Form:
    """Of one type and None, or of several that stand as they are."""
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

    plain = every.write is _same  # thousands of tokens, most often
    return _Form(list if plain else lambda value: [*map(every.write, value)], read)


def _same(value: Any) -> Any:
    return value


def _among(allowed: tuple[Any, ...], value: Any) -> Any:
    if value not in allowed:
        raise ValueError(f"{value!r:.80} is none of {', '.join(allowed)}")
    return value
