"""The credit section: what is wrong with it, or not read, is refused in one line."""

import dataclasses
import typing

import pytest
import yaml

from srl_train.advantages.credit import ASSIGNMENTS
from srl_train.config.credit import CreditConfig
from srl_train.config.yaml_file import from_tree
from srl_train.errors import ConfigError

# What is written, and what the error says.
WRONG = [
    ("credit: {name: shapley}", "credit.name is 'shapley': give one of per_agent, agent_turn"),
    ("credit: {name: role, decay: 1.5}", "credit.decay is 1.5: give 0 to 1"),
    ("credit: {name: advantage_alignment, alignment: -1}", "credit.alignment is -1"),
    (
        "{credit: {name: role}, grpo: {scale_rewards: none}}",
        "grpo.scale_rewards is 'none' and read by credit.name per_agent only, which is 'role'",
    ),
    ("credit: {name: hierarchical}", "mode.name is 'mixed': nobody leads"),
    (
        "{credit: {name: opponent_model}, mode: {name: hierarchical}}",
        "do not choose at the same time",
    ),
]
# Setting -> a value of it, and the assignments that read it.
OWN = {
    "scale": (
        "none",
        {"agent_turn", "team_joint", "hierarchical", "advantage_alignment", "opponent_model"},
    ),
    "decay": (0.5, {"role"}),
    "alignment": (2.0, {"advantage_alignment"}),
}


@pytest.mark.parametrize("text, says", WRONG)
def test_a_wrong_section_is_refused_in_one_line(text, says):
    with pytest.raises(ConfigError) as error:
        from_tree(yaml.safe_load(text))
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_the_names_are_those_of_the_table():
    names = typing.get_args(typing.get_type_hints(CreditConfig)["name"])
    assert names == tuple(ASSIGNMENTS)
    assert {field.name for field in dataclasses.fields(CreditConfig)} == {"name", *OWN}


@pytest.mark.parametrize("chosen", sorted(ASSIGNMENTS))
@pytest.mark.parametrize("name", sorted(OWN))
def test_a_setting_is_refused_where_it_is_not_read(chosen, name):
    value, readers = OWN[name]
    if chosen in readers:
        assert getattr(CreditConfig(name=chosen, **{name: value}), name) == value
        return
    with pytest.raises(ConfigError, match=rf"credit\.{name} is read by .* only.*'{chosen}'"):
        CreditConfig(name=chosen, **{name: value})


@pytest.mark.parametrize("name", sorted(OWN))
def test_every_setting_changes_what_its_readers_assign(name):
    from srl_train.advantages.credit import Seating
    from tests.srl_train.advantages.credit.games import game

    value, readers = OWN[name]
    seating = Seating(("a", "b"), None, {"a": ("b",)})
    groups = [[game({"a": [1, 2], "b": [0, 3]}), game({"a": [0, 5], "b": [2, 2]})]]
    for reader in readers:
        plain, changed = (
            ASSIGNMENTS[reader](own, 1.0)(groups, seating, {})[0]
            for own in (CreditConfig(name=reader), CreditConfig(name=reader, **{name: value}))
        )
        assert plain != changed
