"""Run configurations in YAML, read strictly: a typo is an error that names the nearest key."""

from __future__ import annotations

import dataclasses
import difflib
import logging
import math
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml

from srl_envs.errors import DocumentError
from srl_envs.loading.untrusted import read_bytes
from srl_train.config.bounds import default_of
from srl_train.config.models import LEFT_OUT_AS_IN
from srl_train.config.run import RunConfig
from srl_train.config.yaml_loader import MAX_YAML, read_yaml
from srl_train.errors import ConfigError

Section = TypeVar("Section")
log = logging.getLogger(__name__)


def load(path: str | Path, overrides: Mapping[str, Any] | None = None) -> RunConfig:
    """The run a YAML file describes, with `overrides` such as {'grpo.learning_rate': 1e-3} on top.

    Raises ConfigError for an unknown key (naming the nearest), a wrong type or a value outside
    its bounds.
    """
    tree = read_tree(path)
    return from_tree({} if tree is None else tree, overrides)


def read_tree(path: str | Path) -> Any:
    """What a YAML file holds; raises ConfigError where it cannot be read."""
    try:
        text = read_bytes(Path(path), MAX_YAML, pipes=True).decode("utf-8")
    except OSError as error:
        raise ConfigError(f"cannot read the configuration {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not text in UTF-8: {error}") from error
    except DocumentError as error:
        raise ConfigError(f"cannot read the configuration {path}: {error}") from error
    return parse(text, str(path))


def parse(text: str, where: str) -> Any:
    """What the YAML text holds; raises ConfigError, beginning with `where`, for what `read_yaml`
    refuses."""
    try:
        return read_yaml(text)
    except DocumentError as error:
        raise ConfigError(f"{where}: {error}") from error


def from_tree(tree: Any, overrides: Mapping[str, Any] | None = None) -> RunConfig:
    """The run that nested plain data describes (what YAML holds)."""
    if not isinstance(tree, Mapping):
        raise ConfigError(f"a configuration is a mapping of sections, got {type(tree).__name__}")
    tree = _without_other_algorithm(tree, overrides or {})
    for dotted, value in (overrides or {}).items():
        _put(tree, dotted, value)
    config = _build(RunConfig, tree, "")
    assert isinstance(config, RunConfig)
    return config


def _without_other_algorithm(
    tree: Mapping[str, Any], overrides: Mapping[str, Any]
) -> dict[str, Any]:
    """The tree without the section of the algorithm that an override of `algorithm` replaces;
    what overrides themselves set stays, to be refused where nothing reads it."""
    kept = dict(tree)
    named = {dotted.partition(".")[0] for dotted in overrides}
    if "algorithm" not in named or "algorithms" in named or tree.get("algorithms"):
        return kept
    for section in ("grpo", "ppo"):
        if section not in named | {overrides["algorithm"]} and kept.pop(section, None):
            log.warning("section %s is left aside: no model learns by it", section)
    return kept


def section_from_tree(kind: type[Section], tree: Any, path: str) -> Section:
    """One section alone, which errors call `path`; raises ConfigError as `load` does."""
    section = _build(kind, tree, path)
    assert isinstance(section, kind)
    return section


def to_tree(config: Any) -> Any:
    """Plain data that `from_tree` reads back to an equal config."""
    if dataclasses.is_dataclass(config) and not isinstance(config, type):
        return {f.name: to_tree(getattr(config, f.name)) for f in dataclasses.fields(config)}
    if isinstance(config, Mapping):
        return {key: to_tree(value) for key, value in config.items()}
    if isinstance(config, list | tuple):
        return [to_tree(value) for value in config]
    return config


def dump(config: RunConfig) -> str:
    """The config as YAML."""
    return yaml.safe_dump(to_tree(config), sort_keys=False)


def _put(tree: dict[str, Any], dotted: str, value: Any) -> None:
    *sections, last = dotted.split(".")
    for section in sections:
        inner = tree.get(section)
        if inner is not None and not isinstance(inner, Mapping):
            raise ConfigError(f"{dotted}: {section!r} holds {inner!r}, not a section")
        tree[section] = dict(inner or {})
        tree = tree[section]
    tree[last] = value


def _build(kind: type, tree: Any, path: str) -> Any:
    if not isinstance(tree, Mapping):
        raise ConfigError(f"{path or 'the configuration'} is a section, got {tree!r}")
    hints = typing.get_type_hints(kind)
    known = {entry.name: entry for entry in dataclasses.fields(kind)}
    values: dict[str, Any] = {}
    # Sections first whose settings others take for what they leave out.
    for key, value in sorted(tree.items(), key=lambda one: _takes_from_beside(known.get(one[0]))):
        dotted = f"{path}.{key}" if path else str(key)
        if key not in known:
            nearest = difflib.get_close_matches(str(key), known, n=1, cutoff=0.5)
            hint = f"did you mean {nearest[0]!r}?" if nearest else f"known: {', '.join(known)}"
            raise ConfigError(f"unknown key {dotted!r}: {hint}")
        if dataclasses.is_dataclass(hints[key]) and isinstance(value, Mapping):
            # What is left out keeps the section's own default, which may differ from its class's;
            # but not beside a name: the options of one game are not those of another.
            left_out = {} if "name" in value else to_tree(_left_out(kind, known[key], tree))
            for hanging in getattr(hints[key], "LEFT_OUT", ()):  # found out where it stands
                left_out.pop(hanging, None)
            own = {
                name: {**left_out[name], **given}
                if isinstance(given, Mapping) and isinstance(left_out.get(name), Mapping)
                else given
                for name, given in value.items()
            }
            value = {**left_out, **own}
        beside = known[key].metadata.get(LEFT_OUT_AS_IN)
        if beside is not None and isinstance(value, Mapping):
            shared = to_tree(values.get(beside, _left_out(kind, known[beside], tree)))
            value = {
                name: {**shared, **own} if isinstance(own, Mapping) else own
                for name, own in value.items()
            }
        values[key] = _convert(hints[key], value, dotted)
    try:
        return kind(**values)
    except ConfigError:
        raise
    except ValueError as error:  # a nested dataclass of another package checked its own values
        raise ConfigError(f"{path}: {error}") from error


def _left_out(kind: type, field: dataclasses.Field[Any], told: Mapping[str, Any]) -> Any:
    """The field's default, which may hang on what else the section is told."""
    hangs_on: Mapping[str, Any] = getattr(kind, "LEFT_OUT", {})
    return hangs_on[field.name](told) if field.name in hangs_on else default_of(field)


def _takes_from_beside(field: dataclasses.Field[Any] | None) -> bool:
    return field is not None and LEFT_OUT_AS_IN in field.metadata


def _convert(hint: Any, value: Any, path: str) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return value
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _build(hint, value, path)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        choices = [choice for choice in arguments if choice is not type(None)]
        if len(choices) > 1:
            if not isinstance(value, str | list | tuple):
                raise ConfigError(f"{path} is {value!r}: give text or a list")
            choices = [c for c in choices if (c is str) == isinstance(value, str)] or choices
        return _convert(choices[0], value, path)
    if origin is Literal:
        if value not in arguments:
            raise ConfigError(f"{path} is {value!r}: give one of {', '.join(map(str, arguments))}")
        return value
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise ConfigError(f"{path} is {value!r}: give a list")
        return tuple(_convert(arguments[0], v, f"{path}[{i}]") for i, v in enumerate(value))
    if origin is not None:  # Mapping[str, X]
        if not isinstance(value, Mapping):
            raise ConfigError(f"{path} is {value!r}: give a mapping")
        return {str(k): _convert(arguments[1], v, f"{path}.{k}") for k, v in value.items()}
    return _scalar(hint, value, path)


def _scalar(kind: type, value: Any, path: str) -> Any:
    # YAML 1.1 reads 3e-3 as text.
    if kind is float and isinstance(value, int | str) and not isinstance(value, bool):
        try:
            value = float(value)
        except (ValueError, OverflowError):
            raise ConfigError(f"{path} is {value!r}: give a number") from None
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        wanted = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}
        raise ConfigError(f"{path} is {value!r}: give {wanted.get(kind, kind.__name__)}")
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{path} is {value!r}: give a finite number")
    return value
