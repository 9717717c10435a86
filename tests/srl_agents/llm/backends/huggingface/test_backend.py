import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
)

from srl_agents.errors import BackendError
from srl_agents.event_loop import run
from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend
from srl_agents.llm.backends.token_backend import Request, answer_trie
from srl_agents.llm.chat_format import ChatTurn
from srl_agents.llm.sampling import Sampling
from tests.srl_agents.llm.backends.huggingface.conversations import (
    ANSWERS,
    SAMPLING,
    assert_same,
    converse,
    replace_config,
    wild,
)


def test_logprobs_equal_the_models(backend):
    model = wild(backend)
    [*_, completions], requests = converse(model, rows=4, turns=3)
    for completion, request in zip(completions, requests, strict=True):
        with torch.no_grad():
            logits = model.model(torch.tensor([request.context])).logits[0] / SAMPLING.temperature
        count = len(completion.ids)
        own = logits.log_softmax(-1)[-count - 1 : -1].gather(
            1, torch.tensor(completion.ids)[:, None]
        )
        np.testing.assert_allclose(completion.logprobs, own[:, 0], atol=1e-4)


def test_constrained_answers_are_legal_and_renormalized(backend):
    model = wild(backend)
    chat = model.chat
    answers = tuple(map(chat.answer, ANSWERS))
    tree = answer_trie(answers, chat.end_of_turn)
    [prompt] = chat.prompts([ChatTurn("Round 1.", rules="Choose.")])
    with torch.no_grad():
        logits = model.model(torch.tensor([prompt])).logits[0, -1, list(tree.allowed)] / 1.5
    wanted = dict(zip(tree.allowed, logits.log_softmax(0).tolist(), strict=True))
    seen = set()
    for seed in range(12):
        [done] = model.sample([Request(prompt, SAMPLING, seed, answers=answers)])
        assert chat.text(done.ids) in ANSWERS
        assert done.allowed == (tree.allowed, (chat.end_of_turn,))
        assert done.logprobs == pytest.approx((wanted[done.ids[0]], 0.0), abs=1e-4)
        assert done.ended
        seen.add(done.ids)
    assert len(seen) == 2


def test_answers_do_not_depend_on_the_batch(backend):
    model = wild(backend)
    together, _ = converse(model, rows=4, turns=3)
    alone, _ = converse(model, rows=1, turns=3)
    assert_same([[turn[0]] for turn in together], alone)


def test_dropout_is_off_while_sampling(backend):
    quiet = wild(backend)
    noisy = wild(backend)
    noisy.model.config.attention_dropout = 0.9
    for layer in noisy.model.model.layers:
        layer.self_attn.attention_dropout = 0.9
    noisy.model.train()
    assert_same(converse(quiet, rows=2, turns=2)[0], converse(noisy, rows=2, turns=2)[0])


def test_unconstrained_answers_end_at_a_stop_token_or_the_limit(backend):
    [[done], *_], _ = converse(backend, rows=1, turns=1)
    assert done.ended
    assert done.ids[-1] == backend.chat.end_of_turn
    assert done.allowed is None
    cut = Sampling(max_new_tokens=1)
    [short] = backend.sample([Request((1, 2, 3), cut, 0)])
    assert len(short.ids) == len(short.logprobs) == 1
    assert not short.ended


# The second choice comes after one token, or after four of which three are forced.
FORKS = ((10, 20, 21, 22, 23), (10, 20, 21, 22, 24), (11, 30), (11, 31))


@pytest.mark.parametrize("windowed", [False, True])
def test_choices_after_forced_tokens_of_different_lengths(backend, windowed):
    kind, changes = (MistralConfig, {"sliding_window": 4}) if windowed else (LlamaConfig, {})
    config = replace_config(backend.model.config, kind, **changes)
    torch.manual_seed(3)
    model = (MistralForCausalLM if windowed else LlamaForCausalLM)(config).eval()
    backend = HuggingFaceBackend(model, backend.tokenizer, name="forks")
    context = (5, 6, 7, 8, 9)
    requests = [
        Request(context[row % 3 :], SAMPLING, row, answers=FORKS, conversation=row)
        for row in range(8)
    ]
    completions = backend.sample(requests)
    assert len(backend.caches._handles) == 8
    backend.release(3)
    assert backend.caches.of(3) is None
    assert {c.ids[0] for c in completions} == {10, 11}
    for request, completion in zip(requests, completions, strict=True):
        for place, (token, legal) in enumerate(
            zip(completion.ids, completion.allowed, strict=True)
        ):
            with torch.no_grad():
                ids = torch.tensor([request.context + completion.ids[:place]])
                own = (model(ids).logits[0, -1, list(legal)] / 1.5).log_softmax(0)
            wanted = own[legal.index(token)].item()
            assert completion.logprobs[place] == pytest.approx(wanted, abs=1e-4)


SMALL = {
    "vocab_size": 600,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 512,
}


FAMILIES = {
    "llama": {"num_key_value_heads": 2},
    "qwen3": {"num_key_value_heads": 2, "head_dim": 8},
    "mistral": {"num_key_value_heads": 2, "sliding_window": 16},
    "gemma3_text": {"num_key_value_heads": 2, "head_dim": 8, "sliding_window": 16},
    "gpt_neox": {},
    "gpt2": {},
    "falcon": {"alibi": True, "new_decoder_architecture": False},
    "opt": {"ffn_dim": 32, "word_embed_proj_dim": 32},
}


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("family", FAMILIES)
def test_model_families_sample_from_their_own_distribution(backend, family, attention):
    config = AutoConfig.for_model(
        family, **SMALL, **FAMILIES[family], bos_token_id=1, eos_token_id=2, pad_token_id=0
    )
    torch.manual_seed(3)
    model = AutoModelForCausalLM.from_config(config, attn_implementation=attention).eval()
    played = HuggingFaceBackend(model, backend.tokenizer, name=family)
    for completions, contexts in turns_of(played, rows=3, turns=3):
        for completion, context in zip(completions, contexts, strict=True):
            count = len(completion.ids)
            with torch.no_grad():
                logits = model(torch.tensor([context + completion.ids])).logits[0]
            own = (logits / SAMPLING.temperature).log_softmax(-1)
            own = own[-count - 1 : -1][range(count), completion.ids]
            np.testing.assert_allclose(completion.logprobs, own, atol=1e-4)


def turns_of(backend, rows, turns):
    """Return each step's contexts and completions."""
    for count in range(1, turns + 1):
        [*_, completions], requests = converse(backend, rows, count)
        yield (
            completions,
            [r.context[: -len(c.ids)] for r, c in zip(requests, completions, strict=True)],
        )


async def ask(backend, request):
    return await backend.complete(request)


def test_invalid_requests_are_rejected(backend):
    positions = backend.model.config.max_position_embeddings
    asked = Request((5,) * (positions - 3), SAMPLING, 0)
    with pytest.raises(BackendError, match=rf"{positions - 3} tokens.*up to 6.*{positions}"):
        run(ask(backend, asked))
    with pytest.raises(BackendError, match="context of a request must have at least one token"):
        run(ask(backend, replace(asked, context=())))
    with pytest.raises(BackendError, match=r"tiny@0.*got 3"):
        run(ask(backend, replace(asked, context=(5,), version=3)))
    assert run(ask(backend, replace(asked, context=(5,), version=0)))


def test_a_failing_model_raises_backend_error_with_its_cause(backend):
    asked = Request((10**6,), SAMPLING, 0)  # no such token
    with pytest.raises(BackendError, match="tiny failed on 1 requests") as caught:
        run(ask(backend, asked))
    assert isinstance(caught.value.__cause__, IndexError)


@pytest.mark.parametrize(("option", "value"), [("device", "cuda"), ("quantization", "zz")])
def test_a_missing_device_or_unknown_quantization_is_refused(
    tiny_folder, monkeypatch, option, value
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(BackendError, match=f"{option} must be .* got '{value}'"):
        HuggingFaceBackend.load(tiny_folder, **{option: value})


def test_a_missing_folder_raises_backend_error(tmp_path):
    with pytest.raises(BackendError, match="cannot load the model"):
        HuggingFaceBackend.load(tmp_path / "nothing", device="cpu")


@pytest.mark.parametrize("rows", [1, 3])
def test_a_frozen_head_in_half_precision_is_computed_once(backend, rows):
    """A view as input would make torch copy the head for every row."""
    model = copy.deepcopy(backend.model).to(torch.bfloat16).requires_grad_(False)
    seen = []
    model.lm_head.register_forward_hook(lambda head, inputs, output: seen.append(inputs[0]))
    played = HuggingFaceBackend(model, backend.tokenizer)
    first = [Request((5, 6, 7, 8 + row), SAMPLING, row) for row in range(rows)]
    played.sample(first)
    assert seen[0].shape[:2] == (rows, 1)
    assert seen[0].stride(0) == seen[0].shape[-1]
    assert not model.lm_head._forward_pre_hooks, "nothing stays on the model"
