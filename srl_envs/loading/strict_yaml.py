"""Strict reading of YAML: no duplicate keys, bounded input, one kind of error."""

from __future__ import annotations

import re
from typing import Any

import yaml

from srl_envs.errors import DocumentError
from srl_envs.loading.untrusted import MAX_NESTING

MAX_YAML = 2**20
"""Maximum bytes of one document; a configuration has a few thousand."""
MAX_ENTRIES = 100_000
"""Maximum entries of one document. An alias (*name) counts as its whole target every time."""
LONGEST_NUMBER = 1000  # characters


def read_yaml(text: str) -> Any:
    """Return the plain data of a YAML text.

    Raises:
        DocumentError: The text is not YAML, has a key twice in one mapping, exceeds MAX_YAML,
            MAX_ENTRIES or MAX_NESTING, or has an alias within its own target.
    """
    if len(text) > MAX_YAML:
        raise DocumentError(f"{len(text)} characters, at most {MAX_YAML} are read")
    try:
        return yaml.load(text, _StrictLoader)
    except DocumentError:
        raise
    # PyYAML's constructors raise many exceptions: KeyError for '!!bool x', IndexError for
    # "!!int ''", AttributeError for '!!timestamp x', ValueError for a date such as 2026-13-01.
    except (
        yaml.YAMLError, LookupError, AttributeError, TypeError, ValueError, ArithmeticError
    ) as error:  # fmt: skip
        said = " ".join(str(error).split())
        raise DocumentError(f"not YAML: {said or type(error).__name__}") from error


class _StrictLoader(yaml.SafeLoader):
    """Safe YAML loader with the limits and refusals of `read_yaml`."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0
        self._sizes: dict[int, tuple[int, int]] = {}  # of finished nodes: entries, nesting

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Compose the next node; raise DocumentError if it is too large or nested too deep."""
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise DocumentError(f"nested deeper than {MAX_NESTING}")
        is_alias = self.check_event(yaml.AliasEvent)
        node = super().compose_node(parent, index)
        self._depth -= 1
        if is_alias and id(node) not in self._sizes:
            raise DocumentError("an alias is within its own target")
        if not is_alias:
            self._sizes[id(node)] = self._measured(node)
        return node

    def compose_mapping_node(self, anchor: Any) -> Any:
        """Compose a mapping; raise DocumentError for a key that it contains twice."""
        node = super().compose_mapping_node(anchor)
        first: dict[Any, int] = {}
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                line = key.start_mark.line + 1
                name = self.construct_object(key)  # 'yes' and 'true' are the same key
                if name in first:
                    raise DocumentError(
                        f"line {line}: {key.value!r} is in this mapping already, in line "
                        f"{first[name]}: put both into one"
                    )
                first[name] = line
        return node

    def compose_scalar_node(self, anchor: Any) -> Any:
        """Compose a scalar; raise DocumentError for a number that is too long."""
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
                "read, an alias counts as its whole target"
            )
        return entries, nesting


# YAML 1.1 reads 1e-3 as text, for want of a point; YAML 1.2 and its readers say a number.
_StrictLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"),
    list("-+0123456789"),
)
