"""Base class of configuration sections, with validation errors of one line."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping, Sequence
from pkgutil import resolve_name
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.functional_validators import AfterValidator, BeforeValidator
from pydantic_core import CoreSchema, core_schema

from srl_envs.tables import PluginTable
from srl_envs.untrusted import printable
from srl_train.errors import ConfigError

Names = Annotated[tuple[str, ...], Field(strict=False)]
"""Tuple of names, which is a list in YAML."""
LocalPath = Annotated[str, AfterValidator(os.path.expanduser)]
"""Path; "~" is the user's home folder."""
LONGEST = 80
"""Maximum number of characters of a value that an error quotes."""
RENAMED = {
    "kept_tokens": "kv_cache_tokens",
    "nash_games": "nash_episodes",
    "of": "models",
    "player_gpus": "rollout_worker_gpus",
    "players": "rollout_workers",
    "value_normalisation": "value_normalization",
}
"""Former name of a setting to its present name, for error messages."""
FROM_TRL = {
    "learning_rate": "algorithm.learning_rate",
    "max_completion_length": "models.sampling.max_new_tokens",
    "model": "models.base",
    "num_generations": "rollout.group_size",
    "temperature": "models.sampling.temperature",
    "use_vllm": "backend.name: vllm",
}
"""Option of TRL to the whole name of the setting, for error messages."""


class Section(BaseModel):
    """Base class of configuration sections, which are frozen and strictly validated.

    The constructor raises ConfigError for wrong or unknown settings. If one field decides which
    others a section has, CHOICE is its name, and each choice is a class with a common base class.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
    )
    CHOICE: ClassVar[str] = ""
    ELSEWHERE: ClassVar[Mapping[str, str]] = {}
    """Unknown name to the setting of another section that errors suggest."""

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
                chosen = f" where {cls.CHOICE} is {tree[cls.CHOICE]!r}" if cls.CHOICE else ""
                if (new := RENAMED.get(key)) and (chosen or new in cls.model_fields):
                    unknown = "" if new in cls.model_fields else f", which is unknown{chosen}"
                    raise ConfigError(f"{key}: renamed to {new!r}{unknown}")
                place = cls.ELSEWHERE.get(key)
                fix = f"set {place}" if place else nearest(key, cls.model_fields)
                raise ConfigError(f"{shown(key, str)}: unknown setting{chosen}; {fix}")
        return tree

    def replaced(self, **changes: Any) -> Self:
        """Return a changed copy, as `replaced(rounds=30)`. Raises ConfigError for a wrong value."""
        return type(self)(**{**dict(self), **changes})


class Deferred:
    """Annotation of a field whose section class is imported when a configuration is validated.

    `target` is `module:class`, or a PluginTable of modules with the class as SECTION. The setting
    `name` of the section then selects the entry of the table.
    """

    def __init__(self, target: str | PluginTable[Any]) -> None:
        self._target = target

    def kinds(self) -> list[type[Section]]:
        """Import and return all section classes that the field allows."""
        if isinstance(self._target, str):
            return [resolve_name(self._target)]
        modules = [self._target.load(name) for name in self._target]
        return [module.SECTION for module in modules if hasattr(module, "SECTION")]

    def _read(self, tree: Any) -> Any:
        if not isinstance(tree, Mapping):
            return tree
        if isinstance(self._target, str):
            return self.kinds()[0].model_validate(tree)
        name: Any = tree.get("name")
        known = isinstance(name, str) and name in self._target
        listed: Any = self._target.load(name) if known else None
        if not hasattr(listed, "SECTION"):
            allowed = ", ".join(one.model_fields["name"].default for one in self.kinds())
            raise ConfigError(f"name: must be one of {allowed}, got {shown(name)}")
        return listed.SECTION.model_validate(tree)

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self._read, handler(source))

    def __get_pydantic_json_schema__(self, _: Any, handler: Any) -> dict[str, Any]:
        definition = handler.generate_json_schema.generate_inner
        return {"oneOf": [definition(kind.__pydantic_core_schema__) for kind in self.kinds()]}


def chosen_by(choice: str, default: str) -> BeforeValidator:
    """Return a validator that adds the key `choice`, with the value `default`, if it is absent."""
    return BeforeValidator(
        lambda tree: {choice: default, **tree} if isinstance(tree, Mapping) else tree
    )


def nearest(name: object, known: Iterable[str]) -> str:
    """Return "did you mean 'x'?" if a known name is similar, else "allowed:" and all names."""
    names = list(known)
    found = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
    return f"did you mean {found[0]!r}?" if found else f"allowed: {', '.join(names)}"


def shown(value: object, written: Any = repr) -> str:
    """Return `written(value)` in one line, escaped, and cut with "..." after 80 characters."""
    text = printable(written(value), multiline=False)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def one_line(error: ValidationError, tree: Any, path: str = "") -> str:
    """Return an error's most deeply nested fault in one line: setting, allowed and given value.

    `tree` is the validated data, and `path` its dotted name within the configuration.
    """
    faults = error.errors(include_url=False)
    places = [_place(fault["loc"], tree, path) for fault in faults]
    # If a field accepts text or a list, the deepest fault belongs to the intended type.
    place, fault = max(zip(places, faults, strict=True), key=lambda pair: len(pair[0]))
    raised = fault.get("ctx", {}).get("error")
    if isinstance(raised, ConfigError):  # Its message begins with the field.
        return f"{place}.{raised}" if place else str(raised)
    last = shown(fault["loc"][-1], str) if fault["loc"] else "value"
    if fault["type"] == "missing":
        return f"{place}.{last}: is required" if place else f"{last}: is required"
    if fault["type"] == "union_tag_invalid":
        field = fault["ctx"]["discriminator"].strip("'")
        allowed, given = fault["ctx"]["expected_tags"].replace("'", ""), shown(fault["ctx"]["tag"])
        return f"{place or last}.{field}: must be one of {allowed}, got {given}"
    if fault["type"] in ("model_type", "dict_type", "model_attributes_type"):
        return f"{place or last}: must be a mapping of settings, got {shown(fault['input'])}"
    allowed = raised or printable(fault["msg"].replace("Input should", "must"), multiline=False)
    return f"{place or last}: {allowed}, got {shown(fault['input'])}"


def _place(parts: Sequence[int | str], tree: Any, path: str) -> str:
    for part in parts:
        if isinstance(part, int) and isinstance(tree, Sequence) and not isinstance(tree, str):
            path, tree = f"{path}[{part}]", tree[part]
        elif isinstance(tree, Mapping) and part in tree:
            path, tree = f"{path}.{shown(part, str)}" if path else shown(part, str), tree[part]
    return path
