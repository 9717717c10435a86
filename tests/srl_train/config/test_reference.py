"""Reference of all settings: the table in the documentation, and the JSON Schema."""

import importlib.util
import json
import re
from pathlib import Path

import jsonschema
import pytest

from srl_train.cli import main
from srl_train.cli.schema import schema
from srl_train.config.run import RunConfig
from srl_train.config.yaml_file import from_tree, read_tree, to_tree
from srl_train.errors import ConfigError

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted((ROOT / "examples" / "configs").rglob("*.yaml"))
CHECK = jsonschema.Draft202012Validator(schema())


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


def test_schema_command_prints_the_schema(capsys):
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out) == schema()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_configurations_match_the_schema(path):
    CHECK.validate(read_tree(path))


@pytest.mark.parametrize(
    "tree",
    [
        {"updates": {"strategy": "federated", "mix": 0.5}},
        {"opponent_pools": {"past": {"keep": 2}}, "seats": {"agent_0": "past"}},
        to_tree(RunConfig()),
    ],
)
def test_accepted_configurations_match_the_schema(tree):
    from_tree(tree)
    CHECK.validate(tree)


@pytest.mark.parametrize(
    "tree",
    [
        {"rollot": {}},
        {"rounds": "5"},
        {"algorithm": {"name": "ppo", "scale_rewards": "none"}},
        {"updates": {"strategy": "selective", "mix": 0.5}},
        {"algorithm": {"trl": {"report_to": "wandb"}}},
    ],
)
def test_rejected_configurations_do_not_match_the_schema(tree):
    assert not CHECK.is_valid(tree)
    with pytest.raises(ConfigError):
        from_tree(tree)
