"""Which strategy reads which option of the `updates` section."""

import dataclasses

import pytest

from srl_train.config.run import UpdatesConfig
from srl_train.errors import ConfigError
from srl_train.updates import STRATEGIES

OWN = {
    "groups": (("model_0",), {"synchronized", "federated"}),
    "federation_weights": ("scores", {"federated"}),
    "federation_temperature": (0.7, {"federated"}),
    "federation_mix": (0.7, {"federated"}),
    "selected_fraction": (0.7, {"selective"}),
    "patience": (7, {"selective"}),
    "sample_budget": ({"model_0": 16}, {"asynchronous"}),
    "max_staleness": (7, {"asynchronous"}),
}


def test_every_option_of_a_strategy_is_in_the_table_below():
    assert {f.name for f in dataclasses.fields(UpdatesConfig)} == {"strategy", *OWN}


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
@pytest.mark.parametrize("name", sorted(OWN))
def test_an_option_is_refused_where_its_strategy_is_not(strategy, name):
    value, readers = OWN[name]
    if strategy in readers:
        beside = {"federation_weights": "scores"} if name == "federation_temperature" else {}
        assert getattr(UpdatesConfig(strategy=strategy, **beside, **{name: value}), name) == value
        return
    with pytest.raises(ConfigError, match=rf"updates\.{name} is read by .* only.*'{strategy}'"):
        UpdatesConfig(strategy=strategy, **{name: value})
