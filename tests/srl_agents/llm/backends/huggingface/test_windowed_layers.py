import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend
from srl_agents.llm.backends.huggingface.kv_cache import FULL, WINDOWED, masks_for
from tests.srl_agents.llm.backends.huggingface.conversations import (
    SAMPLING,
    assert_same,
    converse,
    last_turn,
    seeds_again,
)

SMALL = {
    "vocab_size": 600, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 3,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "sliding_window": 8,
    "max_position_embeddings": 512, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
}  # fmt: skip
MIXED = [WINDOWED, WINDOWED, FULL]
FAMILIES = {
    "gemma3_text": {"layer_types": MIXED},
    "qwen3": {"layer_types": MIXED, "use_sliding_window": True},
    "mistral": {},
}


def windowed(backend, family, attention="sdpa"):
    """Return an untrained model of the family with windows shorter than the conversations."""
    config = AutoConfig.for_model(family, **{**SMALL, **FAMILIES[family]})
    torch.manual_seed(3)
    model = AutoModelForCausalLM.from_config(config, attn_implementation=attention).eval()
    with torch.no_grad():  # Large weights make distant tokens matter.
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.mul_(8)
    model.generation_config.eos_token_id = list(range(0, 600, 4))
    return HuggingFaceBackend(model, backend.tokenizer, name=family)


@pytest.mark.parametrize("constrained", [False, True])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("family", FAMILIES)
def test_conversations_longer_than_a_window_keep_their_cache(
    backend, family, attention, constrained
):
    model = windowed(backend, family, attention)
    kept, requests = converse(model, rows=4, turns=3, constrained=constrained)
    assert len(model.caches._handles) == 4
    assert model.caches.reused > 1.5 * sum(len(request.context) for request in requests) / 3
    fresh, _ = converse(model, rows=4, turns=3, constrained=constrained, keep=False)
    assert_same(kept, fresh, atol=1e-5)
    assert min(len(request.context) for request in requests) > 4 * SMALL["sliding_window"]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_window_counts_tokens_without_padding(backend, family):
    """Tokens of a row with padding have the log-probabilities of the model without padding."""
    model = windowed(backend, family)
    _, requests = converse(model, rows=4, turns=3)
    asked = seeds_again(requests)
    [*answers] = last_turn(model, asked)
    assert model.caches.reused
    for request, [done] in zip(asked, answers, strict=True):
        context = (*request.context, 5, 6, 7)
        with torch.no_grad():
            logits = model.model(torch.tensor([context + done.ids])).logits[0]
        own = (logits / SAMPLING.temperature).log_softmax(-1)[len(context) - 1 : -1]
        wanted = own[range(len(done.ids)), done.ids].tolist()
        assert done.logprobs == pytest.approx(wanted, abs=1e-5)


def test_other_attention_implementations_compute_their_own_masks():
    config = AutoConfig.for_model("gemma3_text", **SMALL, layer_types=MIXED)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa")
    assert masks_for(model).windows == {WINDOWED: 8, FULL: None}
    model.config._attn_implementation = "flash_attention_2"
    assert masks_for(model) is None
