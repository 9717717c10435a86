"""Table of all settings in configuration.md.

python docs/training/settings_table.py    prints it
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import yaml

from srl_train.config.run import RunConfig
from srl_train.config.section import Deferred, Section
from srl_train.config.yaml_file import to_tree


def markdown() -> str:
    """Return a table of every setting with its default and description.

    A description that an earlier setting with the same name has is replaced by that setting's path.
    """
    rows = ["| setting | default | description |", "|---|---|---|"]
    first: dict[tuple[str, str], str] = {}
    for path, default, meaning in _rows(RunConfig, "", RunConfig()):
        earlier = first.setdefault((path.rpartition(".")[2], meaning), path)
        if earlier != path:
            meaning = f"See `{earlier}`."
        # The table is in docs/training/.
        linked = re.sub(r"docs/training/(\w+\.md)", r"[\1](\1)", " ".join(meaning.split()))
        linked = re.sub(r"docs/(\w+/(\w+\.md))", r"[\2](../\1)", linked)
        rows.append(f"| `{path}` | {default} | {linked.replace('|', chr(92) + '|')} |")
    return "\n".join(rows) + "\n"


def _rows(kind: type[Section], path: str, start: Any) -> Iterator[tuple[str, str, str]]:
    """Yield (dotted name, default, description) of each setting; `start` contains the defaults."""
    listed: list[list[Any]] = []
    for name, field in kind.model_fields.items():
        if name == kind.CHOICE:  # `_family` yields it once for all choices.
            continue
        dotted, meaning = f"{path}{name}", field.description or ""
        default = getattr(start, name) if start is not None else field.get_default()
        parts = [*_parts(field.annotation), *field.metadata]
        deferred = [one for one in parts if isinstance(one, Deferred)]
        kinds = deferred[0].kinds() if deferred else [one for one in parts if _is_section(one)]
        if not kinds or default is None or default == {}:
            yield dotted, _written(default), f"{_choices(field.annotation)}{meaning}"
        inner = "NAME." if default == {} and kinds else ""
        if inner and kinds in listed:  # The settings of these classes are listed already.
            continue
        listed.append(kinds)
        if kinds and kinds[0].CHOICE:
            yield from _family(kinds, f"{dotted}.{inner}", default or kinds[0]())
        else:
            for one in kinds:
                yield from _rows(one, f"{dotted}.{inner}", default or None)


def _family(kinds: list[type[Section]], path: str, usual: Any) -> Iterator[tuple[str, str, str]]:
    """Yield the choice, then the settings of all choices; a prefix names those that have one."""
    choice = kinds[0].CHOICE
    names = {kind: get_args(kind.model_fields[choice].annotation) for kind in kinds}
    every = ", ".join(f"`{name}`" for own in names.values() for name in own)
    meaning = kinds[0].model_fields[choice].description or ""
    yield f"{path}{choice}", _written(getattr(usual, choice)), f"{every}. {meaning}"
    found: dict[tuple[str, str, str], list[str]] = {}
    for kind in kinds:
        for row in _rows(kind, path, None):
            found.setdefault(row, []).extend(names[kind])
    for (dotted, default, description), choices in found.items():
        every = len(choices) == sum(map(len, names.values()))
        yield dotted, default, description if every else f"{', '.join(choices)}: {description}"


def _parts(annotation: Any) -> Iterator[Any]:
    """Yield the types that an annotation allows."""
    if get_origin(annotation) in (Annotated, Union, UnionType) or _is_mapping(annotation):
        for part in get_args(annotation):
            yield from _parts(part)
    else:
        yield annotation


def _is_mapping(annotation: Any) -> bool:
    return getattr(get_origin(annotation), "__name__", "") == "Mapping"


def _is_section(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Section)


def _choices(annotation: Any) -> str:
    named = [one for one in _parts(annotation) if get_origin(one) is Literal]
    return "".join(", ".join(f"`{name}`" for name in get_args(one)) + ". " for one in named)


def _written(default: Any) -> str:
    text = yaml.safe_dump(to_tree(default), default_flow_style=True, width=1000)
    return f"`{text.removesuffix('...' + chr(10)).strip()}`"


if __name__ == "__main__":
    sys.stdout.write(markdown())
