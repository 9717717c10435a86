"""Section `models`: names, bases, answer length, and models named in `seats`."""

import pytest

from srl_train.config.models import ModelsConfig
from srl_train.config.yaml_file import from_tree, to_tree
from srl_train.errors import ConfigError


def test_models_are_numbered_and_have_bases():
    models = ModelsConfig(count=2, base="somewhere")
    assert models.names == ("model_0", "model_1")
    assert tuple(models.bases.values()) == ("somewhere", "somewhere")
    assert tuple(ModelsConfig(count=2, base=("a", "b")).bases.values()) == ("a", "b")


@pytest.mark.parametrize(
    ("models", "tokens"),
    [
        ({}, 4),
        ({"base": "some/model"}, 32),
        ({"base": "some/model", "sampling": {"max_new_tokens": 4}}, 4),
        ({"base": "tiny", "sampling": {"temperature": 0.7}}, 4),
    ],
)
def test_the_default_answer_length_depends_on_the_base(models, tokens):
    config = from_tree({"models": models})
    assert config.models.sampling.max_new_tokens == tokens
    assert from_tree(to_tree(config)) == config
    if "sampling" not in models:
        assert ModelsConfig(**models).sampling.max_new_tokens == tokens


@pytest.mark.parametrize(
    ("base", "name"),
    [
        ("tiny", "frozen_tiny"),
        ("org/Model-1.5B@main", "frozen_org_Model-1_5B_main"),
        ("openai:gpt-5-mini", "frozen_openai_gpt-5-mini"),
    ],
)
def test_model_named_in_seats_becomes_a_frozen_model(base, name):
    config = from_tree({"seats": {"agent_0": base, "agent_1": "mybot:Half"}})
    assert config.seats == {"agent_0": name, "agent_1": "mybot:Half"}
    assert config.models.frozen_models == {name: base}
    assert from_tree(to_tree(config)) == config


def test_models_in_seats_with_equal_names_are_refused():
    with pytest.raises(ConfigError, match=r"a/b:c and a:b/c .* models\.frozen_models"):
        from_tree({"seats": {"agent_0": "a/b:c", "agent_1": "a:b/c"}})
