import pytest
import torch

from srl_agents.episode import ModelVersion
from srl_agents.errors import BackendError
from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend
from tests.srl_agents.llm.backends.huggingface.conversations import assert_same, converse, wild

# peft 0.21 still reads the name that transformers 5.23 is retiring.
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated")


def test_an_adapter_needs_a_peft_model(backend):
    with pytest.raises(BackendError, match=r"among \[\], got 'red'"):
        converse(backend, rows=1, turns=1, adapters=["red"])


@pytest.fixture
def adapted(backend):
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(5)
    lora = LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False)
    model = get_peft_model(wild(backend).model, lora, adapter_name="red")
    model.add_adapter("blue", lora)
    return HuggingFaceBackend(model.eval(), backend.tokenizer, name="base")


def test_a_batch_of_several_adapters_equals_one_after_the_other(adapted):
    names = ["red", "blue", "__base__", "blue", "red", None]
    mixed, _ = converse(adapted, rows=6, turns=3, adapters=names)
    assert [str(c.model) for c in mixed[0]] == [
        "base/red@0", "base/blue@0", "base/__base__@0", "base/blue@0", "base/red@0", "base@0",
    ]  # fmt: skip
    for name in ("red", "blue", "__base__"):
        single, _ = converse(adapted, rows=6, turns=3, adapters=[name] * 6)
        rows = [row for row, own in enumerate(names) if (own or "red") == name]
        assert_same([[t[r] for r in rows] for t in mixed], [[t[r] for r in rows] for t in single])
    red, _ = converse(adapted, rows=6, turns=3, adapters=["red"] * 6)
    blue, _ = converse(adapted, rows=6, turns=3, adapters=["blue"] * 6)
    assert any(a.logprobs != b.logprobs for a, b in zip(red[0], blue[0], strict=True))


def test_adapters_have_their_own_versions(adapted):
    adapted.weights_version = 3
    adapted.adapter_versions["blue"] = 7
    assert str(adapted.identity()) == "base@3"
    assert str(adapted.identity("red")) == "base/red@3"
    assert adapted.identity("blue") == ModelVersion("base", 7, "blue")


def test_adapters_of_a_model_in_training_are_sampled(adapted):
    adapted.model.train()
    modes = [module.training for module in adapted.model.modules()]
    trainable = [p.requires_grad for p in adapted.model.parameters()]
    converse(adapted, rows=2, turns=2, adapters=["red", "blue"])
    assert [module.training for module in adapted.model.modules()] == modes
    assert [p.requires_grad for p in adapted.model.parameters()] == trainable


def test_an_unknown_adapter_is_named(adapted):
    with pytest.raises(BackendError, match=r"among \['red', 'blue'\], got 'green'"):
        converse(adapted, rows=2, turns=1, adapters=["red", "green"])
