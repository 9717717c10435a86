"""Decorator for documented settings: frozen dataclasses that pydantic validates."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, TypeVar, dataclass_transform

from pydantic import ConfigDict, ValidationError
from pydantic.dataclasses import dataclass

from srl_train.config.section import one_line
from srl_train.errors import ConfigError

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def settings(cls: type[T]) -> type[T]:
    """Turn a class into a frozen dataclass that raises ConfigError of one line for wrong values.

    Positional arguments, defaults and `dataclasses.asdict` work as for any dataclass.
    """
    config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
    made: Any = dataclass(cls, frozen=True, config=config)
    validated, names = made.__init__, [own.name for own in fields(made)]

    def __init__(self: Any, *given: Any, **named: Any) -> None:
        values = {**dict(zip(names, given, strict=False)), **named}
        try:
            validated(self, **values)
        except ValidationError as error:
            raise ConfigError(one_line(error, values)) from None

    made.__init__ = __init__
    result: type[T] = made
    return result
