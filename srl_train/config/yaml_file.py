"""Run configurations from YAML files, mappings and command-line overrides, and back to YAML."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import TypeAdapter, ValidationError

from srl_envs.errors import DocumentError
from srl_envs.loading import MAX_YAML, read_yaml
from srl_envs.untrusted import read_bytes
from srl_train.config.run import RunConfig
from srl_train.config.section import Section, one_line, shown
from srl_train.errors import ConfigError

Kind = TypeVar("Kind", bound=Section)


def load(path: str | Path, overrides: Mapping[str, Any] | None = None) -> RunConfig:
    """Load a run configuration from a YAML file.

    Args:
        path: YAML file.
        overrides: Values by dotted name, as {'rounds': 5}, which replace those of the file.

    Returns:
        Validated configuration.

    Raises:
        ConfigError: If the file cannot be read, a setting is unknown, or a value has a wrong type,
            is out of bounds or conflicts with another one.
    """
    tree = read_tree(path)
    return from_tree({} if tree is None else tree, overrides)


def read_tree(path: str | Path) -> Any:
    """Return a YAML file's content as plain data, None if empty; ConfigError if unreadable."""
    try:
        return read_yaml(read_bytes(Path(path), MAX_YAML, pipes=True).decode("utf-8"))
    except (OSError, DocumentError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", error)
        raise ConfigError(f"cannot read the configuration {path}: {reason}") from error


def from_tree(tree: Any, overrides: Mapping[str, Any] | None = None) -> RunConfig:
    """Build a RunConfig from a mapping, with overrides by dotted name; ConfigError if wrong."""
    if not isinstance(tree, Mapping):
        raise ConfigError(f"a configuration must be a mapping, got {type(tree).__name__}")
    tree = dict(tree)
    for dotted, value in (overrides or {}).items():
        _put(tree, dotted, value)
    return section_from_tree(RunConfig, tree, "")


def section_from_tree(kind: type[Kind], tree: Any, path: str) -> Kind:
    """Build a section of the class `kind` from the mapping `tree`.

    Raises ConfigError for a wrong setting; `path` is the dotted name of the section in the message.
    """
    try:
        return TypeAdapter(kind).validate_python(tree)
    except ValidationError as error:
        raise ConfigError(one_line(error, tree, path)) from None


def to_tree(config: Any) -> Any:
    """Return a configuration (or section) as nested plain data, which `from_tree` reads."""
    if isinstance(config, Section):
        config = dict(config)
    if isinstance(config, Mapping):
        return {key: to_tree(value) for key, value in config.items()}
    if isinstance(config, list | tuple):
        return [to_tree(value) for value in config]
    return config


def dump(config: RunConfig) -> str:
    """Return the configuration, defaults included, as YAML text in the order of its fields."""
    return yaml.safe_dump(to_tree(config), sort_keys=False)


def _put(tree: dict[str, Any], dotted: str, value: Any) -> None:
    *sections, last = dotted.split(".")
    for section in sections:
        inner = tree.get(section)
        if inner is not None and not isinstance(inner, Mapping):
            raise ConfigError(f"{dotted}: {section} must be a section, got {shown(inner)}")
        tree[section] = dict(inner or {})
        tree = tree[section]
    tree[last] = value
