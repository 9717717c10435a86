"""Presets: their settings, and the priority of explicit settings."""

from pathlib import Path
from typing import get_args

import pytest

import srl_train
from srl_train.config.learning.learners import GrpoConfig
from srl_train.config.learning.presets import PresetName, settings_of
from srl_train.config.run import RunConfig
from srl_train.config.yaml_file import from_tree, to_tree
from srl_train.errors import ConfigError

DOCS = Path(srl_train.__file__).parents[1] / "docs"


@pytest.mark.parametrize("name", get_args(PresetName))
def test_presets_set_their_values_and_survive_a_round_trip(name):
    config = RunConfig(preset=name)
    for section, settings in settings_of(name).items():
        assert settings.items() <= getattr(config, section).model_dump().items()
    assert from_tree(to_tree(config)) == config
    assert config != RunConfig()
    assert f"| `{name}` |" in (DOCS / "training" / "credit.md").read_text(encoding="utf-8")


def test_explicit_settings_override_a_preset():
    config = from_tree(
        {
            "preset": "gspo",
            "algorithm": {"clip_range": 1e-3, "trl": {"epsilon_high": 2e-3}},
        }
    )
    assert config.algorithm.clip_range == 1e-3 and config.algorithm.loss == "grpo"
    assert config.algorithm.trl == {"epsilon_high": 2e-3, "importance_sampling_level": "sequence"}
    # Only fields that were passed to a section object count, not its defaults.
    config = RunConfig(preset="dr_grpo", algorithm=GrpoConfig(learning_rate=1e-5))
    assert (config.algorithm.loss, config.algorithm.learning_rate) == ("dr_grpo", 1e-5)


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"preset": "gspo", "algorithm": {"name": "ppo"}}, "algorithm.name: .*, got 'ppo'"),
        ({"preset": "rloo", "credit": {"name": "role"}}, "credit.name: .*, got 'role'"),
        ({"preset": "grop"}, "preset: .*, got 'grop'"),
    ],
)
def test_settings_that_contradict_a_preset_are_refused(tree, message):
    with pytest.raises(ConfigError, match=message):
        from_tree(tree)


def test_preset_can_be_added_and_removed_by_replacement():
    config = RunConfig(preset="gspo")
    assert config.replaced(preset="gspo", seed=1) == RunConfig(preset="gspo", seed=1)
    assert config.replaced(preset=None).algorithm == config.algorithm
    assert RunConfig(seed=1).replaced(preset="gspo") == RunConfig(preset="gspo", seed=1)


def test_explicit_loss_overrides_the_loss_of_a_preset():
    config = from_tree({"preset": "gspo", "algorithm": {"loss": "dr_grpo"}})
    assert (config.algorithm.loss, config.algorithm.clip_range) == ("dr_grpo", 3e-4)
