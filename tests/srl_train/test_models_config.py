"""What a run is told of its models."""

from srl_train.models_config import ModelsConfig


def test_names_and_bases():
    models = ModelsConfig(count=2, base="somewhere")
    assert models.names == ("model_0", "model_1")
    assert models.bases == ("somewhere", "somewhere")
    assert ModelsConfig(count=2, base=("a", "b")).bases == ("a", "b")
