"""Reference of all settings: the table in the documentation, and the example files."""

import importlib.util
import re
from pathlib import Path

import pytest

from srl_train.config.yaml_file import load

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted((ROOT / "examples" / "configs").rglob("*.yaml"))


def test_documentation_contains_the_current_table():
    spec = importlib.util.spec_from_file_location(
        "settings_table", ROOT / "docs/training/settings_table.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    table = module.markdown().strip()
    guide = (ROOT / "docs" / "training" / "configuration.md").read_text(encoding="utf-8")
    assert table in guide, "run docs/training/settings_table.py"
    names = re.findall(r"^- (.*?) \(", table, re.MULTILINE)
    listed = {name for line in names for name in re.findall(r"`(\S+)`", line)}
    assert {"updates.server.momentum", "algorithm.gae_lambda", "sft.data"} <= listed
    assert "opponent_pools.NAME.nash_episodes" in listed


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_configurations_are_valid(path):
    load(path)
