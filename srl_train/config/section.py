"""Base class of configuration sections, with validation errors of one line."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pkgutil import resolve_name
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import CoreSchema, core_schema

from srl_envs.tables import PluginTable
from srl_envs.untrusted import printable
from srl_train.errors import ConfigError

Names = Annotated[tuple[str, ...], Field(strict=False)]
"""A list in a file."""
LONGEST = 80
"""Maximum number of characters of a value that an error quotes."""


class Section(BaseModel):
    """Frozen section of a configuration; raises ConfigError for the first wrong value.

    A section in which one field (CHOICE) decides which other fields have an effect is one class per
    choice, with a common base class.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
    )
    CHOICE: ClassVar[str] = ""
    READ_WHERE: ClassVar[Mapping[str, tuple[str, Callable[[Any], object]]]] = {}
    """Field to (condition in words, condition of a section) under which the field has an effect."""

    def __init__(self, /, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise ConfigError(one_line(error, fields)) from None

    # Pydantic builds nested sections itself, so that an error contains the whole path.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown(cls, tree: Any) -> Any:
        for key in tree if isinstance(tree, Mapping) else ():
            if key not in cls.model_fields:
                fix = nearest(key, cls.model_fields)
                chosen = f" where {cls.CHOICE} is {tree[cls.CHOICE]!r}" if cls.CHOICE else ""
                raise ConfigError(f"{shown(key, str)}: unknown{chosen}: {fix}")
        return tree

    @model_validator(mode="after")
    def _refuse_unread(self) -> Self:
        for name, (where, is_read) in self.READ_WHERE.items():
            got = getattr(self, name)
            if got != type(self).model_fields[name].default and not is_read(self):
                raise ConfigError(f"{name}: has an effect only if {where}, got {shown(got)}")
        return self

    def replaced(self, **changes: Any) -> Self:
        """Return a validated copy with these fields changed."""
        return type(self)(**{**dict(self), **changes})


class Deferred:
    """Annotation of a field whose section classes are imported when a configuration needs them.

    Args:
        target: `module:class` of the section, if there is only one.
    """

    def __init__(self, target: str = "") -> None:
        self._target = target

    def kinds(self) -> list[type[Section]]:
        """Return all classes that the section may have."""
        return [resolve_name(self._target)]

    def kind_of(self, tree: Mapping[str, Any]) -> type[Section]:
        """Return the class of a section that a mapping describes."""
        return self.kinds()[0]

    def _read(self, tree: Any) -> Any:
        return self.kind_of(tree).model_validate(tree) if isinstance(tree, Mapping) else tree

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self._read, handler(source))

    def __get_pydantic_json_schema__(self, _: Any, handler: Any) -> dict[str, Any]:
        definition = handler.generate_json_schema.generate_inner
        return {"oneOf": [definition(kind.__pydantic_core_schema__) for kind in self.kinds()]}


class Listed(Deferred):
    """Annotation of a section with one class per entry of a table, selected by the field `name`.

    Args:
        table: Table of modules. The `SECTION` of a module is its class; modules without one are
            skipped.
    """

    def __init__(self, table: PluginTable[Any]) -> None:
        self._table = table

    def kinds(self) -> list[type[Section]]:
        """Return all classes that the section may have."""
        modules = [self._table.load(name) for name in self._table]
        return [module.SECTION for module in modules if hasattr(module, "SECTION")]

    def kind_of(self, tree: Mapping[str, Any]) -> type[Section]:
        """Return the class that a mapping's `name` selects; raises ConfigError for other names."""
        name = tree["name"]
        listed = self._table.load(name) if isinstance(name, str) and name in self._table else None
        kind: type[Section] | None = getattr(listed, "SECTION", None)
        if kind is None:
            allowed = ", ".join(one.model_fields["name"].default for one in self.kinds())
            raise ConfigError(f"name: must be one of {allowed}, got {shown(name)}")
        return kind


def chosen_by(choice: str, usual: str) -> BeforeValidator:
    """Return a validator that adds the usual choice to a section without one."""
    return BeforeValidator(
        lambda tree: {choice: usual, **tree} if isinstance(tree, Mapping) else tree
    )


def nearest(name: object, known: Iterable[str]) -> str:
    """Return the known name that is most similar to an unknown one, as a question."""
    names = list(known)
    found = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
    return f"did you mean {found[0]!r}?" if found else f"known: {', '.join(names)}"


def shown(value: object, written: Any = repr) -> str:
    """Return a value as an error quotes it."""
    text = printable(written(value), multiline=False)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def one_line(error: ValidationError, tree: Any, path: str = "") -> str:
    """Return one fault of `tree` at `path`: the setting, the allowed values and the given value."""
    faults = error.errors(include_url=False)
    places = [_place(fault["loc"], tree, path) for fault in faults]
    # If a field may be text or a list, the deepest fault is of the intended kind.
    place, fault = max(zip(places, faults, strict=True), key=lambda one: len(one[0]))
    raised = fault.get("ctx", {}).get("error")
    if isinstance(raised, ConfigError):  # begins with the field
        return f"{place}.{raised}" if place else str(raised)
    allowed = raised or printable(fault["msg"], multiline=False)
    return f"{place or fault['loc'][-1]}: {allowed}, got {shown(fault['input'])}"


def _place(parts: Sequence[int | str], tree: Any, path: str) -> str:
    """Return pydantic's location as a dotted path, without the kinds of a union in it."""
    for part in parts:
        if isinstance(part, int) and isinstance(tree, Sequence) and not isinstance(tree, str):
            path, tree = f"{path}[{part}]", tree[part]
        elif isinstance(tree, Mapping) and part in tree:
            path, tree = f"{path}.{shown(part, str)}" if path else shown(part, str), tree[part]
    return path
