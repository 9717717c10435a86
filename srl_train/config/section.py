"""Base class of configuration sections, with validation errors of one line."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Self, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from srl_envs.untrusted import printable
from srl_train.errors import ConfigError

Names = Annotated[tuple[str, ...], Field(strict=False)]
"""A list in a file."""
LONGEST = 80
"""Characters of a refused value that its error quotes."""


class Section(BaseModel):
    """A frozen section; raises ConfigError for what is not allowed, on its first fault.

    A section of which a field (CHOICE) decides which others mean something is one class per choice,
    with exactly the fields that are read then, below a class they share.
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
    """Setting that not all sections of the class read -> where it is read, in words and of one."""

    def __init__(self, /, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise ConfigError(one_line(error, fields)) from None

    # Sections within are built by pydantic itself, so that an error knows the whole path.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown(cls, tree: Any) -> Any:
        for key in tree if isinstance(tree, Mapping) else ():
            if key in cls.model_fields:
                continue
            kinds: Iterable[type[BaseModel]] = cls.__bases__[0].__subclasses__()
            readers = [
                name
                for kind in (kinds if cls.CHOICE else ())
                if key in kind.model_fields
                for name in get_args(kind.model_fields[cls.CHOICE].annotation)
            ]
            fix = nearest(key, cls.model_fields)
            if readers:
                fix = f"it is read where {cls.CHOICE} is {' or '.join(map(repr, readers))}"
            chosen = f" where {cls.CHOICE} is {tree[cls.CHOICE]!r}" if cls.CHOICE else ""
            raise ConfigError(f"{shown(key, str)}: unknown{chosen}: {fix}")
        return tree

    @model_validator(mode="after")
    def _refuse_unread(self) -> Self:
        for name, (where, is_read) in self.READ_WHERE.items():
            got = getattr(self, name)
            if got != type(self).model_fields[name].default and not is_read(self):
                raise ConfigError(
                    f"{name}: got {shown(got)}, which is read only where {where}: change that, or "
                    "leave this out"
                )
        return self

    def replaced(self, **changes: Any) -> Self:
        """A copy with these fields changed, checked anew."""
        return type(self)(**{**dict(self), **changes})


def chosen_by(choice: str, usual: str) -> BeforeValidator:
    """Where a section leaves its choice out, it is the usual one."""
    return BeforeValidator(
        lambda tree: {choice: usual, **tree} if isinstance(tree, Mapping) else tree
    )


def nearest(name: object, known: Iterable[str]) -> str:
    """What may have been meant by an unknown name."""
    names = list(known)
    found = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
    return f"did you mean {found[0]!r}?" if found else f"known: {', '.join(names)}"


def shown(value: object, written: Any = repr) -> str:
    """A refused value, as an error may quote it."""
    text = printable(written(value), multiline=False)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


_ALLOWED = {
    "bool_type": "true or false",
    "dict_type": "a mapping",
    "enum": "one of {expected}",
    "finite_number": "a finite number",
    "float_type": "a number",
    "int_from_float": "a whole number",
    "int_type": "a whole number",
    "is_instance_of": "a {class}",
    "list_type": "a list",
    "model_attributes_type": "a section, which is a mapping",
    "model_type": "a section, which is a mapping",
    "string_type": "text",
    "tuple_type": "a list",
    "greater_than": "more than {gt:g}",
    "greater_than_equal": "{ge:g} or more",
    "less_than": "less than {lt:g}",
    "less_than_equal": "{le:g} or less",
    "literal_error": "one of {expected}",
    "too_short": "one or more",
    "union_tag_invalid": "one of {expected_tags}",
}
"""Kind of pydantic's error -> what is allowed there."""


def one_line(error: ValidationError, tree: Any, path: str = "") -> str:
    """The first fault of `tree`, which stands at `path`: where, what was given, what is allowed."""
    faults = error.errors(include_url=False)
    places = [_place(fault["loc"], tree, path) for fault in faults]
    # Of what may be text or a list, the fault that lies deepest is of the kind that was meant.
    at = max((i for i, one in enumerate(places) if one.startswith(places[0])),
             key=lambda i: (len(places[i]), -i))  # fmt: skip
    first, fault = places[at], faults[at]
    context = fault.get("ctx", {})
    raised = context.get("error")
    if isinstance(raised, ConfigError):  # of a check of ours, which begins with the field
        return f"{first}.{raised}" if first else str(raised)
    given = fault["input"]
    if raised is not None:  # of a check of one value, which says what is allowed
        return f"{first}: got {shown(given)}: give {raised}"
    if fault["type"] == "union_tag_invalid":
        first, given = f"{first}.{context['discriminator'].strip(repr(''))}", context["tag"]
    allowed = [
        _ALLOWED.get(other["type"], printable(other["msg"], multiline=False)).format(
            **other.get("ctx", {})
        )
        for place, other in zip(places, faults, strict=True)
        if place == first or other is fault  # of each kind that the field may be
    ]
    return f"{first}: got {shown(given)}: give {' or '.join(dict.fromkeys(allowed))}"


def _place(parts: Sequence[int | str], tree: Any, path: str) -> str:
    """The dotted path of pydantic's, which also names the kinds of a union that it tried."""
    for part in parts:
        if isinstance(part, int) and isinstance(tree, Sequence) and not isinstance(tree, str):
            path, tree = f"{path}[{part}]", tree[part]
        elif isinstance(tree, Mapping) and part in tree:
            path, tree = f"{path}.{shown(part, str)}" if path else shown(part, str), tree[part]
    return path
