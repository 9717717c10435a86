"""Environments and update strategies that are passed to the Trainer as objects."""

import pytest

from srl_envs import make
from srl_train.build import build_run
from srl_train.config import yaml_file
from srl_train.environment import build_env
from srl_train.errors import ConfigError
from srl_train.trainer import Trainer
from srl_train.updates import UpdateStrategy, synchronized
from tests.srl_train.run_state import same, weights


def game():
    return make("coop_compete_v0", num_agents=2, max_cycles=2)


def test_custom_strategy_is_used_and_recorded(tmp_path, short_run):
    calls = []

    def watched():
        def on_gradients(gradients, state, context):
            calls.append((context.round, sorted(gradients)))
            return synchronized().on_gradients(gradients, state, context)

        return UpdateStrategy(lambda models: {}, on_gradients)

    trainer = Trainer(short_run(), tmp_path, strategy=watched())
    trainer.fit()
    assert calls == [(0, ["model_0", "model_1"]), (1, ["model_0", "model_1"])]
    assert same(*weights(trainer.run).values())
    assert trainer._rows[0]["strategy"] == "custom"
    # The recorded configuration alone cannot resume the run with another strategy.
    recorded = yaml_file.load(tmp_path / "config.yaml")
    with pytest.raises(ConfigError, match=r"updates\.strategy 'custom'"):
        build_run(recorded)


def test_custom_environment_is_recorded(tmp_path, short_run):
    trainer = Trainer(short_run(), tmp_path, make_env=game)
    row = trainer.train_round().row
    trainer.close()
    assert row["environment"]["name"] == "custom:coop_compete_v0"
    recorded = yaml_file.load(tmp_path / "config.yaml")
    with pytest.raises(ConfigError, match="there is no environment 'custom:coop_compete_v0'"):
        build_env(recorded)


def test_strategy_object_with_settings_of_another_strategy_is_refused(tmp_path, short_run):
    config = short_run(updates={"strategy": "federated", "mix": 0.5})
    with pytest.raises(ConfigError, match=r"updates .*'federated'"):
        Trainer(config, tmp_path, strategy=synchronized()).fit()
