"""Adapters on one shared base: memory is shared, learning is not."""

import pytest
import torch

from srl_train.config.models import AdapterConfig
from srl_train.errors import ConfigError
from srl_train.learners.lora import adapter_models, side_by_side
from tests.srl_train.learners.reference.grpo import small_model

NAMES = ("model_0", "model_1", "model_2")
CONFIG = AdapterConfig(rank=2, alpha=8.0)
IDS = torch.tensor([[1, 2, 3, 10, 41], [5, 6, 7, 8, 9]])


def logits(model, **settings):
    with torch.no_grad():
        return model(input_ids=IDS, **settings).logits


def base_tensors(model):
    """The tensors of a model that are the base's, adapters left out."""
    return [t for n, t in (*model.named_parameters(), *model.named_buffers()) if "lora_" not in n]


def adapter(model):
    return {n: p.detach().clone() for n, p in model.named_parameters() if p.requires_grad}


def moved(model, seed=0):
    """Change every tensor of the adapter, as an update would."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))


@pytest.fixture
def family():
    base = small_model()
    return base, adapter_models(base, NAMES, CONFIG, seed=3)


def test_adapters_share_one_base(family):
    base, models = family
    together = side_by_side(base, models, CONFIG)
    own = {t.data_ptr() for t in base_tensors(base)}
    for model in (*models.values(), together):
        found = base_tensors(model)
        assert len(found) >= len(own)
        assert {t.data_ptr() for t in found} == own


def test_adapters_start_equal_from_the_seed_and_change_nothing(family):
    models = family[1]
    first, *others = (adapter(model) for model in models.values())
    assert any("lora_A" in name for name in first)
    for other in others:
        assert first.keys() == other.keys()
        assert all(torch.equal(first[n], other[n]) for n in first)
    assert len({p.data_ptr() for m in models.values() for n, p in m.named_parameters()
                if "lora_" in n}) == len(NAMES) * len(first)  # fmt: skip
    again = adapter(adapter_models(small_model(), NAMES[:1], CONFIG, seed=3)["model_0"])
    other = adapter(adapter_models(small_model(), NAMES[:1], CONFIG, seed=4)["model_0"])
    assert all(torch.equal(first[n], again[n]) for n in first)
    assert not all(torch.equal(first[n], other[n]) for n in first)
    for model in models.values():
        assert torch.equal(logits(model), logits(small_model()))


def test_target_modules_may_be_a_regular_expression():
    config = AdapterConfig(rank=2, target_modules=r".*\.0\..*(q|v)_proj")
    model = adapter_models(small_model(), ["model_0"], config, 0)["model_0"]
    assert {n.split(".lora_")[0].rsplit(".", 3)[1:][0] for n in adapter(model)} == {"0"}


@pytest.mark.parametrize(
    "targets, told",
    [
        ("q_proj", "models.adapters: .*q_proj"),  # PEFT matches a text with whole paths
        ("[", "models.adapters: unterminated character set"),
        ((), r"target_modules: .* got \(\)"),
        (("q_proj", "v_prjo"), "target_modules: .*down_proj.* got .*v_prjo"),
    ],
)
def test_unknown_target_modules_are_refused(targets, told):
    config = AdapterConfig(rank=2, target_modules=targets)
    with pytest.raises(ConfigError, match=told):
        adapter_models(small_model(), ["model_0"], config, 0)


def test_side_by_side_samples_as_each_model(family):
    base, models = family
    together = side_by_side(base, models, CONFIG).eval()
    for round_number in range(2):
        for seed, model in enumerate(models.values()):
            moved(model, seed + 10 * round_number)
        own = {name: logits(model.eval()) for name, model in models.items()}
        assert not torch.equal(own["model_0"], own["model_1"])
        for name in NAMES:
            together.set_adapter(name)
            assert torch.equal(logits(together), own[name])
        mixed = logits(together, adapter_names=["model_2", "model_0"])
        torch.testing.assert_close(mixed[0], own["model_2"][0], rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(mixed[1], own["model_0"][1], rtol=1e-6, atol=1e-6)
