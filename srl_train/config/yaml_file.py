"""Run configurations from YAML files, mappings and command-line overrides, and back to YAML.

YAML is read strictly: no duplicate keys, bounded input, one kind of error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import TypeAdapter, ValidationError

from srl_envs.errors import DocumentError
from srl_envs.loading.untrusted import MAX_NESTING, read_bytes
from srl_train.config.run import RunConfig
from srl_train.config.section import Section, one_line, shown
from srl_train.errors import ConfigError

Kind = TypeVar("Kind", bound=Section)

MAX_YAML = 2**20
"""Bytes of one document; a configuration has a few thousand."""
MAX_ENTRIES = 100_000
"""Of one document, what aliases (*name) stand for counted every time."""
LONGEST_NUMBER = 1000  # characters


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


def read_yaml(text: str) -> Any:
    """What the text holds.

    Raises DocumentError for what is not YAML, a key that stands twice in one mapping (of which only
    the last would be read), more than MAX_YAML, MAX_ENTRIES or MAX_NESTING, and an alias of what it
    stands in.
    """
    if len(text) > MAX_YAML:
        raise DocumentError(f"{len(text)} characters, at most {MAX_YAML} are read")
    try:
        return yaml.load(text, _StrictLoader)
    except DocumentError:
        raise
    # PyYAML's constructors raise whatever comes up: KeyError for '!!bool x', IndexError for
    # "!!int ''", AttributeError for '!!timestamp x', ValueError for a date such as 2026-13-01.
    except (
        yaml.YAMLError, LookupError, AttributeError, TypeError, ValueError, ArithmeticError
    ) as error:  # fmt: skip
        said = " ".join(str(error).split())
        raise DocumentError(f"not YAML: {said or type(error).__name__}") from error


class _StrictLoader(yaml.SafeLoader):
    """YAML's safe loader with the limits and refusals of `read_yaml`."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0
        self._sizes: dict[int, tuple[int, int]] = {}  # of finished nodes: entries, nesting

    def compose_node(self, parent: Any, index: Any) -> Any:
        """The next node; raises DocumentError where it is too large or nested too deep."""
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise DocumentError(f"nested deeper than {MAX_NESTING}")
        is_alias = self.check_event(yaml.AliasEvent)
        node = super().compose_node(parent, index)
        self._depth -= 1
        if is_alias and id(node) not in self._sizes:
            raise DocumentError("an alias stands within what it stands for")
        if not is_alias:
            self._sizes[id(node)] = self._measured(node)
        return node

    def compose_mapping_node(self, anchor: Any) -> Any:
        """The mapping as nodes; raises DocumentError for a key that stands in it twice."""
        node = super().compose_mapping_node(anchor)
        first: dict[Any, int] = {}
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                line = key.start_mark.line + 1
                name = self.construct_object(key)  # 'yes' and 'true' are the same key
                if name in first:
                    raise DocumentError(
                        f"line {line}: {key.value!r} stands there already, in line "
                        f"{first[name]}: put both into one"
                    )
                first[name] = line
        return node

    def compose_scalar_node(self, anchor: Any) -> Any:
        """The scalar as a node; raises DocumentError for a number that is too long."""
        node = super().compose_scalar_node(anchor)
        if node.tag.endswith((":int", ":float")) and len(node.value) > LONGEST_NUMBER:
            raise DocumentError(f"a number of {len(node.value)} characters")
        return node

    def _measured(self, node: Any) -> tuple[int, int]:
        if isinstance(node, yaml.ScalarNode):
            return 1, 1
        parts = node.value
        if isinstance(node, yaml.MappingNode):
            parts = [part for pair in node.value for part in pair]
        sizes = [self._sizes[id(part)] for part in parts]
        entries = 1 + sum(size for size, _ in sizes)
        nesting = 1 + max((depth for _, depth in sizes), default=0)
        if entries > MAX_ENTRIES or nesting > MAX_NESTING:
            raise DocumentError(
                f"{entries} entries, {nesting} deep: at most {MAX_ENTRIES} and {MAX_NESTING} are "
                "read, aliases counted as what they stand for"
            )
        return entries, nesting


# YAML 1.1 reads 1e-3 as text, for want of a point; YAML 1.2 and its readers say a number.
_StrictLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"),
    list("-+0123456789"),
)
