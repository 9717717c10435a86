"""The credit section: what is wrong with it, or not read, is refused in one line."""

import typing

import pytest
import yaml
from pydantic import TypeAdapter

from srl_train.config.yaml_file import from_tree
from srl_train.credit import (
    CREDIT_SCHEMES,
    AlignmentCredit,
    CounterfactualCredit,
    CreditConfig,
    PlainCredit,
    RoleCredit,
)
from srl_train.errors import ConfigError

# What is written, and what the error says.
WRONG = [
    ("credit: {name: shapley}", "credit.name: got 'shapley': give one of 'per_agent'"),
    ("credit: {name: role, decay: 1.5}", "credit.decay: got 1.5: give 1 or less"),
    ("credit: {name: advantage_alignment, alignment: -1}", "credit.alignment: got -1"),
    (
        "{credit: {name: role}, algorithm: {scale_rewards: batch}}",
        "algorithm.scale_rewards must be 'group' or 'none'",
    ),
    ("credit: {name: hierarchical}", "mode.name is 'mixed': nobody leads"),
    (
        "{credit: {name: opponent_model}, mode: {name: hierarchical}}",
        "do not choose at the same time",
    ),
]
# Setting -> a value of it, and the assignments that read it.
OWN = {
    "decay": (0.5, {"role"}),
    "alignment": (2.0, {"advantage_alignment"}),
    "alternatives": (2, {"counterfactual"}),
}
CREDIT = TypeAdapter(CreditConfig)


@pytest.mark.parametrize("text, says", WRONG)
def test_a_wrong_section_is_refused_in_one_line(text, says):
    with pytest.raises(ConfigError) as error:
        from_tree(yaml.safe_load(text))
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_the_names_are_those_of_the_table():
    kinds = [PlainCredit, RoleCredit, AlignmentCredit, CounterfactualCredit]
    named = [n for kind in kinds for n in typing.get_args(kind.model_fields["name"].annotation)]
    assert sorted(named) == sorted(CREDIT_SCHEMES)
    assert {field for kind in kinds for field in kind.model_fields} == {"name", *OWN}


@pytest.mark.parametrize("chosen", sorted(CREDIT_SCHEMES))
@pytest.mark.parametrize("name", sorted(OWN))
def test_a_setting_is_refused_where_it_is_not_read(chosen, name):
    value, readers = OWN[name]
    tree = {"mode": {"name": "hierarchical"}, "credit": {"name": chosen, name: value}}
    if chosen in readers:
        assert getattr(CREDIT.validate_python(tree["credit"]), name) == value
        return
    with pytest.raises(
        ConfigError, match=rf"credit\.{name}: unknown where name is '{chosen}': it is read where"
    ):
        from_tree(tree)


@pytest.mark.parametrize("name", sorted(set(OWN) - {"alternatives"}))  # a setting of replays
def test_every_setting_changes_what_its_readers_assign(name):
    from srl_train.credit import AgentRoles
    from tests.srl_train.credit.games import game

    value, readers = OWN[name]
    seating = AgentRoles(("a", "b"), None, {"a": ("b",)})
    groups = [[game({"a": [1, 2], "b": [0, 3]}), game({"a": [0, 5], "b": [2, 2]})]]
    for reader in readers:
        plain, changed = (
            CREDIT_SCHEMES[reader](own, 1.0, "group")(groups, seating, {})[0]
            for own in map(
                CREDIT.validate_python, ({"name": reader}, {"name": reader, name: value})
            )
        )
        assert plain != changed
