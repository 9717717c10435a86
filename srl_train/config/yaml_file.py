"""Run configurations from YAML files, mappings and command-line overrides, and back to YAML.

YAML is read strictly (srl_envs.loading).
"""

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
    """The run of a YAML file, with `overrides` such as {'algorithm.learning_rate': 1e-3} on top.

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
    tree = dict(tree)
    for dotted, value in (overrides or {}).items():
        _put(tree, dotted, value)
    return section_from_tree(RunConfig, tree, "")


def section_from_tree(kind: type[Kind], tree: Any, path: str) -> Kind:
    """One section alone, which errors call `path`; raises ConfigError as `load` does."""
    try:
        return TypeAdapter(kind).validate_python(tree)
    except ValidationError as error:
        raise ConfigError(one_line(error, tree, path)) from None


def to_tree(config: Any) -> Any:
    """Plain data that `from_tree` reads back to an equal config."""
    if isinstance(config, Section):
        config = dict(config)
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
            raise ConfigError(f"{dotted}: {section!r} holds {shown(inner)}, not a section")
        tree[section] = dict(inner or {})
        tree = tree[section]
    tree[last] = value
