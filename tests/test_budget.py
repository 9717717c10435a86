"""Size limits of the whole project, from budget.toml."""

from __future__ import annotations

import ast
import json
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BUDGET = tomllib.loads((ROOT / "budget.toml").read_text(encoding="utf-8"))
SHIPPED = ("srl_envs", "srl_agents", "srl_train", "srl_extensions", "core_srl", "compat")
MEASURED = (*SHIPPED, "benchmarks", "examples", "tests")


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def python_files(*tops: str) -> list[Path]:
    """Return the hand-written Python files below the given top-level folders."""
    files = (path for top in tops for path in sorted((ROOT / top).rglob("*.py")))
    return [path for path in files if not path.stem.endswith("_pb2")]


def lines_of(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def part_of(path: Path) -> str:
    """Return the most specific part of the budget that contains a file."""
    names = [path.relative_to(ROOT).as_posix(), *map(str, path.relative_to(ROOT).parents)]
    return next((name for name in names if name in BUDGET["lines"]), names[0])


@pytest.fixture(scope="module")
def lines_per_part() -> Counter[str]:
    total: Counter[str] = Counter()
    for path in python_files(*MEASURED):
        total[part_of(path)] += lines_of(path)
    return total


def test_every_file_belongs_to_a_part(lines_per_part):
    assert sorted(set(lines_per_part) - set(BUDGET["lines"])) == []


@pytest.mark.parametrize("part", BUDGET["lines"])
def test_lines(part, lines_per_part):
    assert lines_per_part[part] <= BUDGET["lines"][part]


def module_file(name: str) -> Path | None:
    path = ROOT.joinpath(*name.split("."))
    candidates = (path.with_suffix(".py"), path / "__init__.py")
    return next((file for file in candidates if file.is_file()), None)


def imported_files(path: Path) -> Iterator[Path]:
    """Yield the project files that a file imports anywhere, also for type checking."""
    names: list[str] = []
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    for name in names:
        file = module_file(name) if name.split(".")[0] in SHIPPED else None
        if file is not None:
            yield file


@pytest.mark.parametrize("start", BUDGET["imports"])
def test_lines_reached_through_imports(start):
    reached: set[Path] = set()
    remaining = [ROOT / start]
    while remaining:
        path = remaining.pop()
        if path not in reached:
            reached.add(path)
            remaining += imported_files(path)
    assert sum(map(lines_of, reached)) <= BUDGET["imports"][start]


def test_density():
    """Lines are removed by removing code, not by compressing it."""
    files = python_files(*SHIPPED)
    lines = [line for path in files for line in path.read_text(encoding="utf-8").splitlines()]
    statements = sum(
        isinstance(node, ast.stmt) for path in files for node in ast.walk(tree_of(path))
    )
    limits = BUDGET["density"]
    assert 100 * statements / len(lines) <= limits["statements_per_100_lines"]
    assert sum(map(len, lines)) / len(lines) <= limits["characters_per_line"]


def test_class_names_used_twice():
    names = Counter(
        node.name
        for path in python_files(*SHIPPED)
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ClassDef)
    )
    repeated = sorted(name for name, count in names.items() if count > 1)
    assert len(repeated) <= BUDGET["names"]["class_names_used_twice"], repeated


def test_settings():
    """A setting is a property of the configuration's JSON Schema that is no section itself."""
    from srl_train.config.run import RunConfig

    schema = RunConfig.model_json_schema()
    sections = [schema, *schema["$defs"].values()]
    properties = [field for each in sections for field in each.get("properties", {}).values()]
    settings = [field for field in properties if "$ref" not in json.dumps(field)]
    assert len(settings) <= BUDGET["names"]["settings"]


def test_words():
    docs = [*(ROOT / "docs").rglob("*.md")]
    words = sum(len(path.read_text(encoding="utf-8").split()) for path in docs)
    assert words <= BUDGET["words"]["docs"]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(readme.split()) <= BUDGET["words"]["readme"]
