"""Updates of whole models in a running server, for each kind of parameter."""

from dataclasses import replace

import pytest

from srl_agents.llm.backends import background_loop
from srl_extensions.vllm.fleet import Fleet
from tests.servers.prompt_logprobs import prompt_logprobs
from tests.srl_extensions.vllm_real.conftest import BASE, unused_port
from tests.srl_extensions.vllm_real.reference import of_text

IDS = [(37 * place) % 500 + 3 for place in range(60)]
CLOSE = 1e-4
KINDS = [
    "model.embed_tokens.weight",  # It is tied to the output layer.
    "model.layers.0.self_attn.q_proj.weight",
    "model.layers.0.self_attn.k_proj.weight",
    "model.layers.1.self_attn.v_proj.weight",
    "model.layers.1.self_attn.o_proj.weight",
    "model.layers.0.mlp.gate_proj.weight",
    "model.layers.0.mlp.up_proj.weight",
    "model.layers.1.mlp.down_proj.weight",
    "model.layers.0.input_layernorm.weight",
    "model.layers.1.post_attention_layernorm.weight",
    "model.norm.weight",
]


@pytest.fixture
def published(endpoint, model_folder, tmp_path):
    """Function that publishes the weights of a module; afterwards the server is reset."""
    count = iter(range(100))

    def publish(model):
        folder = tmp_path / str(next(count))
        model.save_pretrained(folder)
        background_loop.run(endpoint.update_weights(folder))

    yield publish
    background_loop.run(endpoint.update_weights(model_folder))


def load(folder):
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder).eval()


def apart(model, endpoint, name=BASE):
    logprobs = background_loop.run(prompt_logprobs(endpoint, name, IDS))
    return max(abs(a - b) for a, b in zip(of_text(model, IDS), logprobs, strict=True))


def test_update_of_each_kind_of_parameter_arrives(server_spec, model_folder, tmp_path):
    # Servers of whole models have no adapters, and compute with other copies of the weights.
    alone = replace(server_spec, adapter_slots=0, port=unused_port())
    with Fleet.managed([alone]) as fleet:
        [endpoint] = fleet.clients(BASE)
        _check_each_kind(endpoint, model_folder, tmp_path)


def _check_each_kind(endpoint, model_folder, tmp_path):
    import torch

    model = load(model_folder)
    assert {name.split(".", 3)[-1] for name, _ in model.named_parameters()} == {
        name.split(".", 3)[-1] for name in KINDS
    }
    parameters = dict(model.named_parameters())
    generator = torch.Generator().manual_seed(0)
    assert apart(model, endpoint) < CLOSE
    for name in KINDS:
        with torch.no_grad():
            parameters[name].add_(0.1 * torch.randn(parameters[name].shape, generator=generator))
        assert apart(model, endpoint) > 0.01, name
        model.save_pretrained(tmp_path / name)
        background_loop.run(endpoint.update_weights(tmp_path / name))
        assert apart(model, endpoint) < CLOSE, name


def test_adapters_use_the_updated_base(endpoint, model_folder, adapter_folders, published):
    import torch
    from peft import PeftModel

    background_loop.run(endpoint.load_adapter("weights@1", adapter_folders[1]))
    model = load(model_folder)
    with torch.no_grad():
        model.model.norm.weight.mul_(1.5)
    published(model)
    adapted = PeftModel.from_pretrained(model, adapter_folders[1]).eval()
    assert apart(adapted, endpoint, "weights@1") < CLOSE
    background_loop.run(endpoint.unload_adapter("weights@1"))
