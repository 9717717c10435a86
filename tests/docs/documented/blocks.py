"""Unchanged Python blocks of the documents."""

from __future__ import annotations

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent


def blocks(document: str) -> dict[str, str]:
    """Return the mapping from heading to block; further blocks of a heading are numbered."""
    text = (HERE / f"{document}.md").read_text(encoding="utf-8")
    found: dict[str, str] = {}
    for part in re.split(r"^(?=#{1,4} [^\n]+\n\n)", text, flags=re.MULTILINE):
        heading = part.partition("\n")[0].lstrip("# ")
        for code in re.findall(r"^```python\n(.*?)^```", part, re.MULTILINE | re.DOTALL):
            name = heading
            while name in found:
                name = f"{heading} {int(name.removeprefix(heading) or 1) + 1}"
            found[name] = code
    return found


def runs(code: str) -> bool:
    """Return True for a program; other blocks list signatures, fields or errors."""
    try:
        tree = compile(
            code, "block", "exec", flags=ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        )
    except SyntaxError:
        return False
    return not any(isinstance(node, ast.ClassDef | ast.AnnAssign) for node in tree.body)
