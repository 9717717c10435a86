"""The list of all settings in configuration.md.

python docs/training/settings_table.py    writes it into the page
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import yaml

from srl_train.config.run import RunConfig
from srl_train.config.section import Deferred, Section
from srl_train.config.yaml_file import to_tree

PAGE = Path(__file__).with_name("configuration.md")
START = "<!-- `python docs/training/settings_table.py` writes the list below. -->\n\n"
END = "\n## "


def markdown() -> str:
    """Return every setting with its default and its meaning, as one list per section.

    Settings of `algorithm`, `sft` and `dpo` with equal names, defaults and meanings are one entry.
    """
    entries: dict[tuple[str, str, str], list[str]] = {}
    for path, default, meaning in _rows(RunConfig, "", RunConfig()):
        section, _, name = path.partition(".")
        learning = section in ("algorithm", "sft", "dpo") and name
        entries.setdefault((name if learning else path, default, meaning), []).append(path)
    dotted = {paths[0].partition(".")[0] for paths in entries.values() if "." in paths[0]}
    sections: dict[str, list[str]] = {}
    for (_, default, meaning), paths in entries.items():
        first = paths[0].partition(".")[0]
        heading = first if first in dotted else "Other settings"
        names = ", ".join(f"`{path}`" for path in paths)
        line = f"- {names} ({default}): {_linked(' '.join(meaning.split()))}"
        sections.setdefault(heading, []).append(line)
    sections["Other settings"] = sections.pop("Other settings")  # last
    return "\n".join(
        f"### {heading}\n\n" + "\n".join(lines) + "\n" for heading, lines in sections.items()
    )


def _linked(meaning: str) -> str:
    """Return the text with links, relative to docs/training/, to the pages that it names."""
    linked = re.sub(r"docs/training/(\w+\.md)", r"[\1](\1)", meaning)
    return re.sub(r"docs/(\w+/(\w+\.md))", r"[\2](../\1)", linked)


def _rows(kind: type[Section], path: str, start: Any) -> Iterator[tuple[str, str, str]]:
    """Yield (dotted name, default, meaning) of each setting; `start` has the section's defaults."""
    listed: list[list[Any]] = []
    for name, field in kind.model_fields.items():
        if name == kind.CHOICE:  # yielded once by `_family`
            continue
        dotted, meaning = f"{path}{name}", field.description or ""
        default = getattr(start, name) if start is not None else field.get_default()
        parts = [*_parts(field.annotation), *field.metadata]
        deferred = [one for one in parts if isinstance(one, Deferred)]
        kinds = deferred[0].kinds() if deferred else [one for one in parts if _is_section(one)]
        if not kinds or default is None or default == {}:
            yield dotted, _written(default), f"{_choices(field.annotation)}{meaning}"
        inner = "NAME." if default == {} and kinds else ""
        if inner and kinds in listed:  # the settings of these classes are listed already
            continue
        listed.append(kinds)
        if kinds and kinds[0].CHOICE:
            yield from _family(kinds, f"{dotted}.{inner}", default or kinds[0]())
        else:
            for one in kinds:
                yield from _rows(one, f"{dotted}.{inner}", default or None)


def _family(kinds: list[type[Section]], path: str, usual: Any) -> Iterator[tuple[str, str, str]]:
    """Yield the setting that selects a section, then the settings of all sections.

    The meaning of a setting that only some sections have begins with their names.
    """
    choice = kinds[0].CHOICE
    names = {kind: get_args(kind.model_fields[choice].annotation) for kind in kinds}
    every = ", ".join(f"`{name}`" for own in names.values() for name in own)
    meaning = kinds[0].model_fields[choice].description or ""
    yield f"{path}{choice}", _written(getattr(usual, choice)), f"{every}. {meaning}"
    found: dict[tuple[str, str, str], list[str]] = {}
    for kind in kinds:
        for row in _rows(kind, path, None):
            found.setdefault(row, []).extend(names[kind])
    for (dotted, default, said), readers in found.items():
        whose = "" if len(readers) == sum(map(len, names.values())) else f"{', '.join(readers)}: "
        yield dotted, default, f"{whose}{said}"


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
    before, _, after = PAGE.read_text(encoding="utf-8").partition(START)
    PAGE.write_text(f"{before}{START}{markdown()}{END}{after.partition(END)[2]}", encoding="utf-8")
