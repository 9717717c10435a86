"""Which strategy reads which option of the `updates` section."""

import typing

import pytest

from srl_train.config.learning.updates import (
    AsynchronousConfig,
    FederatedConfig,
    PopulationConfig,
    SelectiveConfig,
    SynchronizedConfig,
)
from srl_train.config.yaml_file import from_tree
from srl_train.errors import ConfigError
from srl_train.updates import STRATEGIES

KINDS = (
    AsynchronousConfig,
    FederatedConfig,
    PopulationConfig,
    SelectiveConfig,
    SynchronizedConfig,
)
OWN = {
    "groups": ([["model_0"]], {"synchronized", "federated"}),
    "weighting": ("scores", {"federated"}),
    "mix": (0.7, {"federated"}),
    "period": (10, {"federated"}),
    "proximal": (0.1, {"federated"}),
    "server": ({"name": "diloco", "momentum": 0.5}, {"federated"}),
    "every": (7, {"population"}),
    "perturb": (["clip_range"], {"population"}),
    "fraction": (0.7, {"selective"}),
    "patience": (7, {"selective"}),
    "sample_budget": ({"model_0": 16}, {"asynchronous"}),
    "max_staleness": (7, set(STRATEGIES)),
}


def test_every_option_of_a_strategy_is_in_the_table_below():
    assert {name for kind in KINDS for name in kind.model_fields} == {"strategy", *OWN}
    named = [n for kind in KINDS for n in typing.get_args(kind.model_fields["strategy"].annotation)]
    assert sorted(named) == sorted([*STRATEGIES, "custom"])


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
@pytest.mark.parametrize("name", sorted(OWN))
def test_an_option_is_refused_where_its_strategy_is_not(strategy, name):
    value, readers = OWN[name]
    tree = {"updates": {"strategy": strategy, name: value}}
    if strategy in readers:
        assert STRATEGIES[strategy](from_tree(tree).updates)
        return
    with pytest.raises(ConfigError, match=rf"updates\.{name}: unknown where .* it is read where"):
        from_tree(tree)
