"""The Python of docs/agents/watching.md runs."""

import re
from pathlib import Path

import pytest

GUIDE = (Path(__file__).parents[3] / "docs/agents/watching.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("code", [code for code in BLOCKS if "frame" in code])
def test_the_guide_runs(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(compile(code, "block", "exec", dont_inherit=True), names)
    frames = names["frames"] if "frames" in names else [names["frame"]]
    assert frames[0].ndim == 3 and frames[0].dtype.name == "uint8"
