"""Model objects that somebody holds are trained where they are."""

from types import SimpleNamespace

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from srl_train.config.yaml_file import from_tree
from srl_train.errors import ConfigError
from srl_train.loading import with_model_objects
from srl_train.trainer import Trainer

pytestmark = pytest.mark.usefixtures("one_model")

SMALL = {
    "environment": {"name": "coop_compete_pair_v0", "options": {"max_cycles": 2}},
    "models": {"count": 2},
    "rollout": {"group_size": 8, "groups_per_round": 1},
    "logging": {"evaluation_episodes": 0},
    "rounds": 1,
}


def loaded(folder):
    return AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)


def test_the_very_object_learns(tiny_folder, tmp_path):
    model, tokenizer = loaded(tiny_folder)
    before = {name: one.detach().clone() for name, one in model.named_parameters()}
    models = {**SMALL["models"], "base": [tiny_folder, "tiny"]}
    config = from_tree({**SMALL, "models": models, "algorithm": {"learning_rate": 0.1}})
    with Trainer(config, tmp_path, models={"model_0": (model, tokenizer)}) as trainer:
        trainer.fit()
        assert next(iter(trainer.run.players.modules.values())) is model
    after = dict(model.named_parameters())
    assert any(not torch.equal(before[name], after[name]) for name in before)
    saved, _ = loaded(tmp_path / "models" / "model_0")
    assert all(torch.equal(one, after[name]) for name, one in saved.named_parameters())


def test_the_record_says_where_the_object_came_from(tiny_folder):
    model, tokenizer = loaded(tiny_folder)
    config = with_model_objects(from_tree(SMALL), {"model_1": (model.bfloat16(), tokenizer)})
    assert tuple(config.models.bases.values()) == ("tiny", tiny_folder)
    assert config.models.dtype == "bfloat16"


def an_object(dtype=torch.float32, source="somewhere"):
    return SimpleNamespace(dtype=dtype, config=SimpleNamespace(_name_or_path=source)), None


SHARED = an_object()


@pytest.mark.parametrize(
    ("given", "changes", "message"),
    [
        ({"model_7": an_object()}, {}, "unknown models"),
        ({"model_0": SHARED, "model_1": SHARED}, {}, "same object"),
        ({"model_0": an_object(source="")}, {}, "save_pretrained"),
        ({"model_0": an_object(torch.float16)}, {}, "float16, must"),
        ({"model_0": an_object()}, {"models.adapters": {}}, "models.adapters"),
        ({"model_0": an_object()}, {"engine.name": "ray"}, "engine.name 'ray'"),
    ],
    ids=["unknown", "twice", "from nowhere", "float16", "adapters", "ray"],
)
def test_objects_that_cannot_be_trained_are_refused(given, changes, message):
    with pytest.raises(ConfigError, match=message):
        with_model_objects(from_tree(SMALL, changes), given)
