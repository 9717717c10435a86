"""What a run is told of its models."""

import pytest

from srl_train.config.models import ModelsConfig
from srl_train.config.yaml_file import from_tree, to_tree


def test_names_and_bases():
    models = ModelsConfig(count=2, base="somewhere")
    assert models.names == ("model_0", "model_1")
    assert tuple(models.bases.values()) == ("somewhere", "somewhere")
    assert tuple(ModelsConfig(count=2, base=("a", "b")).bases.values()) == ("a", "b")


@pytest.mark.parametrize(
    ("models", "tokens"),
    [
        ({}, 4),
        ({"count": 2, "base": ["tiny", "tiny"]}, 4),
        ({"base": "some/model"}, 32),
        ({"base": "some/model", "sampling": {"temperature": 0.7}}, 32),
        ({"base": "some/model", "sampling": {"max_new_tokens": 4}}, 4),
        ({"base": "tiny", "sampling": {"temperature": 0.7}}, 4),
    ],
)
def test_models_that_are_not_embedded_may_say_more(models, tokens):
    config = from_tree({"models": models})
    assert config.models.sampling.max_new_tokens == tokens
    assert from_tree(to_tree(config)) == config
    if "sampling" not in models:
        assert ModelsConfig(**models).sampling.max_new_tokens == tokens
