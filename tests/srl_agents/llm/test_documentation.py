import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "agents" / "language_models.md"


@pytest.mark.usefixtures("one_model")
def test_documented_example_runs():
    block, *_ = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    exec(compile(block, str(PAGE), "exec"), {})
