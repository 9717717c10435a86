import re
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "agents" / "language_models.md"


def test_the_pages_example_runs(tiny_folder, monkeypatch):
    monkeypatch.setenv("CORE_SRL_CACHE", str(tiny_folder.parents[1]))
    [block] = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    exec(compile(block, str(PAGE), "exec"), {})
