"""Plain English in docstrings, comments, errors and documentation."""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CODE = ("srl_envs", "srl_agents", "srl_train", "srl_extensions", "core_srl", "compat")
OTHER_CODE = ("benchmarks", "examples")

# A docstring starts with a verb (functions) or a noun phrase (everything else).
FRAGMENT = re.compile(
    r"(What|Who|Whom|Whose|Whoever|Whatever|Those|Whether|Where|When|How|Of|It|Its|They|That|This|"
    r"As|For|From|In|On|By|With|Beside|Also|Else|Only|Nothing|Nobody|Everyone|Everything|Ones)\b"
)
HOUSE_WORDS = re.compile(
    r"\b((is|are|was|were|be) told|(is|are) asked|asked for|told (of|apart)|tells of|st(and|ood)|"
    r"stands|(go|goes|going|gone|went) on|under way|beside|whoever|whatever|wherever|nobody|"
    r"somebody|anybody|everybody|whom|(is|are) held|held to|as (it is|they are)|of (its|their) own|"
    r"each of which|at hand|comes to|came to|what (it|they|is|was)|who plays|in place of|"
    r"by (itself|themselves)|so long as|lest|thereby|stays as|left as|the like|learned from|met|"
    r"meets)\b"
)


def python_texts(path: Path) -> Iterator[tuple[int, str, bool]]:
    """Yield the line, text and kind (True for docstrings) of all prose in a Python file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            if isinstance(node.value.value, str):
                yield node.lineno, node.value.value, True
        elif isinstance(node, ast.Raise):
            for part in ast.walk(node):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.lineno, part.value, False
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string, False


def markdown_texts(path: Path) -> Iterator[tuple[int, str, bool]]:
    """Yield the line and text of all prose in a Markdown file, without code blocks."""
    in_code = False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        elif not in_code:
            yield number, line, False


def findings(path: Path) -> list[str]:
    """Return the places of a file that break the rules."""
    texts = python_texts(path) if path.suffix == ".py" else markdown_texts(path)
    place = path.relative_to(ROOT).as_posix()
    found = []
    for line, text, is_docstring in texts:
        if is_docstring and (start := FRAGMENT.match(" ".join(text.split()))):
            found.append(f"{place}:{line}: starts with {start[0]!r}")
        for word in HOUSE_WORDS.finditer(re.sub(r"`[^`]*`", "", text)):
            found.append(f"{place}:{line}: {word[0]!r}")
    return found


PROMPTS = ("srl_envs/tasks/tool_use/builtin_tools.py",)
"""Files whose docstrings are prompts of models; recorded results depend on their wording."""


def prose_of(tops: tuple[str, ...], pattern: str) -> list[str]:
    files = [path for top in tops for path in sorted((ROOT / top).rglob(pattern))]
    written = [
        path
        for path in files
        if not path.stem.endswith("_pb2") and path.relative_to(ROOT).as_posix() not in PROMPTS
    ]
    return [each for path in written for each in findings(path)]


@pytest.mark.parametrize("package", [*CODE, *OTHER_CODE])
def test_code(package):
    assert prose_of((package,), "*.py") == []


def test_documentation():
    assert [*findings(ROOT / "README.md"), *prose_of(("docs", "examples"), "*.md")] == []
