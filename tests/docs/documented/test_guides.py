"""The index of examples and the table of MultiModelConfig match the code."""

import ast
import re
from pathlib import Path

from core_srl.config import MultiModelConfig

ROOT = Path(__file__).parents[3]
GUIDE = (ROOT / "docs/project/core_srl.md").read_text(encoding="utf-8")


def test_every_example_is_listed():
    index = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    for path in (ROOT / "examples").rglob("*"):
        if path.suffix in (".py", ".yaml"):
            assert f"`{path.name}`" in index or f"`{path.parent.name}/{path.name}`" in index


def table(heading):
    """First column -> second column of the table after a heading of the guide."""
    rows = GUIDE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return dict(re.findall(r"^\| (.+?) \| `(.*?)` \|", rows, re.MULTILINE))


def read(text):
    return {"null": None, "true": True, "false": False}.get(text, text)


def test_every_documented_field_is_in_the_guide_with_its_default():
    told = {
        name: read(value)
        for names, value in table("MultiModelConfig").items()
        for name in re.findall(r"`(\w+)`", names)
    }
    actual = {name: getattr(MultiModelConfig(), name) for name in MultiModelConfig.model_fields}
    assert told.keys() | {"model_names"} == actual.keys()
    for name, value in told.items():
        default = actual[name]
        default = getattr(default, "name", default)  # an enum's member by its name
        if isinstance(default, list):
            assert ast.literal_eval(value) == default
        else:
            assert str(value) == str(default), name
