"""Adapters on a base in 4 bits: the base is unchanged to the bit, the adapters learn."""

import builtins
from functools import partial

import pytest
import torch
from bitsandbytes.functional import dequantize_4bit

from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend
from srl_agents.llm.backends.huggingface.loading import shared_states
from srl_train.config.models import AdapterConfig
from srl_train.environment import build_env
from srl_train.learners.lora import adapter_models
from srl_train.player_names import parse_player
from srl_train.players import Resolver
from srl_train.trainer import Trainer
from tests.srl_train.learners.test_lora import moved
from tests.srl_train.run_state import everything, resumed_and_whole, same

ADAPTERS = {"rank": 4}
IDS = torch.tensor([[1, 2, 3, 10, 41], [5, 6, 7, 8, 9]])


def loaded(folder, kind, dtype="float32", **settings):
    return HuggingFaceBackend.load(folder, device="cpu", dtype=dtype, quantization=kind, **settings)


def held(module):
    """Every tensor of the base by where it is, scales and their scales included."""
    found = {n: t for n, t in module.state_dict().items() if "lora_" not in n}
    return {n: t.clone() for n, t in found.items() if isinstance(t, torch.Tensor)}


def weight_bytes(model):
    """Bytes of all that a model's layers hold: parameters, buffers and scales, each once."""
    tensors = [*model.parameters(), *model.buffers()]
    for state in shared_states(model):
        for part in (state, getattr(state, "state2", None)):
            tensors += [t for t in vars(part).values() if torch.is_tensor(t)] if part else []
    sizes = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}
    return sum(sizes.values())


def logits(model, ids=IDS, **settings):
    with torch.no_grad():
        return model(input_ids=ids, **settings).logits


def test_only_linear_layers_are_quantized(tiny_folder):
    full, small = loaded(tiny_folder, None).model, loaded(tiny_folder, "nf4").model
    linear = {n for n, m in full.named_modules() if type(m) is torch.nn.Linear} - {"lm_head"}
    stored = dict(small.named_parameters())
    for name, parameter in full.named_parameters():
        if name.removesuffix(".weight") in linear:
            assert stored[name].dtype == torch.uint8
        else:
            assert torch.equal(stored[name], parameter)
    values = sum(dict(full.named_parameters())[f"{n}.weight"].numel() for n in linear)
    saved = weight_bytes(full) - weight_bytes(small)
    # From four bytes to a half; scales take about 1/100 of a byte more (a layer's table of 1 KiB
    # shows in one as small as this).
    assert 0.8 < saved / (values * 3.5) < 1
    assert not torch.equal(logits(small), logits(full))


def test_gradients_equal_those_of_the_dequantized_weights(tiny_folder):
    base = loaded(tiny_folder, "nf4").model
    plain = loaded(tiny_folder, None).model
    for name, module in base.named_modules():
        if type(module).__name__ == "Linear4bit":
            weight = dequantize_4bit(module.weight.data, module.quant_state)
            plain.get_submodule(name).weight.data.copy_(weight)
    gradients = []
    for model in (base, plain):
        [adapted] = adapter_models(model, ("model_0",), AdapterConfig(rank=4), seed=3).values()
        moved(adapted)
        logits(adapted.eval())  # as games are sampled before each update
        adapted.train()(input_ids=IDS).logits.log_softmax(-1).square().mean().backward()
        gradients.append({n: p.grad for n, p in adapted.named_parameters() if p.requires_grad})
    own, expected = gradients
    assert len(own) == 28
    for name, gradient in expected.items():
        assert gradient.norm() > 0
        assert (own[name] - gradient).norm() < 1e-5 * gradient.norm()


RUNS = {
    "reference": {
        "models__quantization": "nf4",
        "algorithm__beta": 0.1,
        "algorithm__minibatches": 2,
    },
    "checkpointing in ppo": {
        "models__quantization": "nf4",
        "algorithm": {"name": "ppo", "trl": {"activation_checkpointing": True}},
    },
    "stages": {
        "models__quantization": "nf4",
        "sft": {"episodes": 4, "data_policy": "uniform", "batch_size": 4},
        "dpo": {"episodes": 8, "batch_size": 4},
    },
}


@pytest.mark.parametrize("name", RUNS)
def test_training_changes_only_adapters(name, short_run, tmp_path):
    config = short_run(models__adapters=ADAPTERS, **RUNS[name])
    trainer = Trainer(config, tmp_path)
    modules = {m: one._trainer.model for m, one in trainer.run.learners.items()}
    bases = {m: held(model) for m, model in modules.items()}
    before = everything(trainer.run)["weights"]
    trainer.fit()
    assert all(same(held(model), bases[m]) for m, model in modules.items())
    for model, own in everything(trainer.run)["weights"].items():
        assert {t.dtype for t in own.values()} == {torch.float32}
        assert all(not torch.equal(t, before[model][n]) for n, t in own.items() if "lora_B" in n)


def test_resumed_to_the_bit_and_evaluated_on_the_same_base(short_run, tmp_path):
    config = short_run(models__adapters=ADAPTERS, models__quantization="nf4")
    resumed, whole = resumed_and_whole(config, tmp_path)
    assert same(everything(resumed.run), everything(whole.run))

    resolver, player = Resolver(), parse_player(f"{tmp_path / 'whole'}:model_1")
    assert resolver.record(player)["quantization"] == "nf4"
    [policy] = resolver.policies(player, partial(build_env, config))
    backend, adapter = policy._backend, policy._adapter
    backend.model.set_adapter(adapter)
    trained = whole.run.learners["model_1"]._trainer.model.eval()
    assert torch.equal(logits(backend.model), logits(trained))
    size = sum(f.stat().st_size for f in (tmp_path / "whole/models/model_1").glob("*.safetensors"))
    assert 0 < size < weight_bytes(backend.model), "the base went into the adapter's folder"


@pytest.mark.parametrize("attention", [{}, {"attn_implementation": "sdpa"}], ids=str)
def test_the_missing_package_is_named(attention, tiny_folder, monkeypatch):
    imported = builtins.__import__

    def without(name, *arguments, **settings):
        if name == "bitsandbytes":
            raise ModuleNotFoundError(name, name=name)
        return imported(name, *arguments, **settings)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r'pip install "core-srl\[quantization\]"'):
        loaded(tiny_folder, "nf4", **attention)
