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
from srl_agents.llm.backends.backend import Request
from srl_agents.llm.backends.huggingface import HuggingFaceBackend
from srl_agents.llm.constrained import answer_tree
from srl_agents.llm.conversation import Turn
from srl_agents.llm.sampling import Sampling

# peft 0.21 still reads the name that transformers 5.23 is retiring.
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated")

ANSWERS = ("compete", "cooperate")
SAMPLING = Sampling(temperature=1.5, max_new_tokens=6)


def wild(backend):
    """The same tokenizer under a model that has learnt nothing: answers of all lengths."""
    torch.manual_seed(3)
    model = LlamaForCausalLM(replace_config(backend.model.config)).eval()
    model.generation_config.eos_token_id = list(range(0, len(backend.tokenizer), 4))
    return HuggingFaceBackend(model, backend.tokenizer, name="wild")


def replace_config(config, kind=LlamaConfig, **changes):
    settings = {**config.to_dict(), **changes}
    for name in ("architectures", "model_type", "transformers_version", "dtype"):
        settings.pop(name, None)
    return kind(**settings)


def converse(backend, rows, turns, *, keep=True, constrained=False, adapters=None, seed=0):
    """Play `rows` conversations; returns all completions, turn by turn, and the final requests."""
    chat = backend.chat
    tree = answer_tree([chat.answer(text) for text in ANSWERS], chat.end_of_turn)
    requests = [
        Request((), SAMPLING, np.random.default_rng([seed, row]), tree if constrained else None)
        for row in range(rows)
    ]
    if adapters:
        requests = [replace(r, adapter=a) for r, a in zip(requests, adapters, strict=True)]
    said = []
    for turn in range(turns):
        for row, request in enumerate(requests):
            words = "x " * (row % 3) + f"Round {turn}."  # rows differ in length
            rules = "Choose." if turn == 0 else None
            last = request.context[-1] if turn else None
            [prompt] = chat.prompts([Turn(words, rules=rules, last=last)])
            requests[row] = replace(request, context=request.context + prompt)
        completions = backend.complete(requests)
        said.append(completions)
        requests = [
            replace(r, context=r.context + c.ids, cache=c.cache if keep else None)
            for r, c in zip(requests, completions, strict=True)
        ]
    return said, requests


def assert_same(left, right, atol=1e-4):
    for a, b in zip(left, right, strict=True):
        for one, other in zip(a, b, strict=True):
            assert one.ids == other.ids
            np.testing.assert_allclose(one.logprobs, other.logprobs, atol=atol)
            assert one.allowed == other.allowed
            assert one.ended == other.ended


@pytest.fixture
def passes(monkeypatch):
    """Widths of the forward passes made, in tokens per row."""
    widths = []
    original = LlamaForCausalLM.forward

    def counted(self, *args, **settings):
        widths.append(settings["input_ids"].shape[1])
        return original(self, *args, **settings)

    monkeypatch.setattr(LlamaForCausalLM, "forward", counted)
    return widths


@pytest.mark.parametrize("constrained", [False, True])
def test_the_cache_changes_nothing_but_the_work(backend, constrained, passes):
    model = wild(backend)
    kept, _ = converse(model, rows=5, turns=5, constrained=constrained)
    with_cache = sum(passes)
    passes.clear()
    fresh, _ = converse(model, rows=5, turns=5, constrained=constrained, keep=False)
    assert_same(kept, fresh)
    assert with_cache < 0.6 * sum(passes)
    lengths = {len(c.ids) for turn in kept for c in turn}
    assert constrained or len(lengths) > 1, "the rows should have ended at different times"


def test_logprobs_are_the_models_own(backend):
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


def test_a_constrained_answer_is_legal_and_renormalised(backend):
    model = wild(backend)
    chat = model.chat
    tree = answer_tree([chat.answer(text) for text in ANSWERS], chat.end_of_turn)
    [prompt] = chat.prompts([Turn("Round 1.", rules="Choose.")])
    with torch.no_grad():
        logits = model.model(torch.tensor([prompt])).logits[0, -1, list(tree.allowed)] / 1.5
    wanted = dict(zip(tree.allowed, logits.log_softmax(0).tolist(), strict=True))
    seen = set()
    for seed in range(12):
        [done] = model.complete(
            [Request(prompt, SAMPLING, np.random.default_rng(seed), answers=tree)]
        )
        assert chat.text(done.ids) in ANSWERS
        assert done.allowed == (tree.allowed, (chat.end_of_turn,))
        assert done.logprobs == pytest.approx((wanted[done.ids[0]], 0.0), abs=1e-4)
        assert done.ended
        seen.add(done.ids)
    assert len(seen) == 2


def test_what_is_drawn_does_not_depend_on_the_company(backend):
    model = wild(backend)
    together, _ = converse(model, rows=4, turns=3)
    alone, _ = converse(model, rows=1, turns=3)
    assert_same([[turn[0]] for turn in together], alone)


def test_passes_per_turn_are_as_few_as_can_be(backend, passes):
    converse(backend, rows=3, turns=4, constrained=True)
    assert len(passes) == 4, "one choice, then a forced end of turn"
    passes.clear()
    tree = answer_tree([backend.chat.answer("compete")], backend.chat.end_of_turn)
    [done] = backend.complete([Request((1, 2), SAMPLING, np.random.default_rng(0), tree)])
    assert backend.chat.text(done.ids) == "compete"
    assert not passes, "nothing to choose, nothing to compute"


def last_turn(backend, requests, **changes):
    asked = [replace(r, context=(*r.context, 5, 6, 7), **changes) for r in requests]
    return [[c] for c in backend.complete(asked)]


def rng_again(requests, seed=11):
    return [replace(r, rng=np.random.default_rng([seed, i])) for i, r in enumerate(requests)]


@pytest.mark.parametrize(
    ("rows", "reused"),
    [
        ([0, 1, 2, 3], True),
        ([3, 1, 0, 2], True),
        ([2, 0], True),
        ([1, 1], False),
    ],
)
def test_rows_may_come_back_in_any_order_and_number(backend, passes, rows, reused):
    model = wild(backend)
    _, requests = converse(model, rows=4, turns=3)
    chosen = [requests[row] for row in rows]
    passes.clear()
    kept = last_turn(model, rng_again(chosen))
    assert (passes[0] < 15) is reused
    assert_same(kept, last_turn(model, rng_again(chosen), cache=None))


def test_a_cache_that_no_longer_fits_is_not_used(backend, passes):
    model = wild(backend)
    _, requests = converse(model, rows=3, turns=2)
    last_turn(model, rng_again(requests))
    passes.clear()
    again = last_turn(model, rng_again(requests))  # the handles are of the turn before
    assert passes[0] > 15
    assert_same(again, last_turn(model, rng_again(requests), cache=None))

    _, requests = converse(model, rows=3, turns=2)
    edited = [replace(r, context=(9, *r.context[1:])) for r in requests]
    passes.clear()
    assert_same(
        last_turn(model, rng_again(edited)), last_turn(model, rng_again(edited), cache=None)
    )
    assert passes[0] > 15

    _, requests = converse(model, rows=3, turns=2)
    _, others = converse(model, rows=3, turns=2)
    mixed = rng_again([requests[0], others[1], replace(requests[2], cache=None)])
    assert_same(last_turn(model, mixed), last_turn(model, rng_again(mixed), cache=None))


def test_a_cache_that_was_left_half_read_is_not_used(backend, monkeypatch):
    model = wild(backend)
    _, requests = converse(model, rows=3, turns=2)
    with monkeypatch.context() as patch:
        patch.setattr(LlamaForCausalLM, "forward", fail)
        with pytest.raises(BackendError, match="out of memory"):
            last_turn(model, rng_again(requests))
    assert_same(
        last_turn(model, rng_again(requests)), last_turn(model, rng_again(requests), cache=None)
    )


def fail(*_, **__):
    raise RuntimeError("out of memory")


def test_new_weights_make_the_cache_invalid(backend):
    model = wild(backend)
    _, requests = converse(model, rows=3, turns=3)
    with torch.no_grad():
        for parameter in model.model.parameters():
            parameter.mul_(1.1)
    model.weights_version += 1
    new = last_turn(model, rng_again(requests))
    assert new[0][0].model == "wild@1"
    assert_same(new, last_turn(model, rng_again(requests), cache=None))


def test_every_module_keeps_its_mode_and_its_gradients(backend):
    backend.model.train()
    frozen = backend.model.model.layers[0]
    frozen.eval()
    modes = [module.training for module in backend.model.modules()]
    converse(backend, rows=2, turns=2)
    assert [module.training for module in backend.model.modules()] == modes
    ids = torch.tensor([[1, 2, 3]])
    backend.model(input_ids=ids, labels=ids).loss.backward()  # no inference tensors left behind
    assert backend.model.lm_head.weight.grad.abs().sum() > 0


def test_dropout_is_off_while_sampling(backend):
    quiet = wild(backend)
    noisy = wild(backend)
    noisy.model.config.attention_dropout = 0.9
    for layer in noisy.model.model.layers:
        layer.self_attn.attention_dropout = 0.9
    noisy.model.train()
    assert_same(converse(quiet, rows=2, turns=2)[0], converse(noisy, rows=2, turns=2)[0])


def test_a_free_answer_ends_where_it_must(backend):
    [[done], *_], _ = converse(backend, rows=1, turns=1)
    assert done.ended
    assert done.ids[-1] == backend.chat.end_of_turn
    assert done.allowed is None
    cut = Sampling(max_new_tokens=1)
    [short] = backend.complete([Request((1, 2, 3), cut, np.random.default_rng(0))])
    assert len(short.ids) == len(short.logprobs) == 1
    assert not short.ended


def test_further_stop_tokens_are_taken_from_the_model(backend):
    backend.model.generation_config.eos_token_id = [backend.chat.end_of_turn, 7]
    again = HuggingFaceBackend(backend.model, backend.tokenizer)
    assert again.chat.stop_ids == {backend.chat.end_of_turn, 7}


# The second choice comes after one token, or after four of which three are forced.
FORKS = [(10, 20, 21, 22, 23), (10, 20, 21, 22, 24), (11, 30), (11, 31)]


@pytest.mark.parametrize("windowed", [False, True])
def test_choices_after_forced_tokens_of_different_lengths(backend, windowed):
    kind, changes = (MistralConfig, {"sliding_window": 4}) if windowed else (LlamaConfig, {})
    config = replace_config(backend.model.config, kind, **changes)
    torch.manual_seed(3)
    model = (MistralForCausalLM if windowed else LlamaForCausalLM)(config).eval()
    backend = HuggingFaceBackend(model, backend.tokenizer, name="forks")
    tree = answer_tree(FORKS, backend.chat.end_of_turn)
    context = (5, 6, 7, 8, 9)
    requests = [
        Request(context[row % 3 :], SAMPLING, np.random.default_rng(row), answers=tree)
        for row in range(8)
    ]
    completions = backend.complete(requests)
    assert {c.ids[0] for c in completions} == {10, 11}
    for request, completion in zip(requests, completions, strict=True):
        assert (completion.cache is None) is windowed  # a window is read anew every turn
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
def test_any_kind_of_model_samples_from_its_own_distribution(backend, family, attention):
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
    """Each turn's completions with the contexts they answered."""
    for count in range(1, turns + 1):
        [*_, completions], requests = converse(backend, rows, count)
        yield (
            completions,
            [r.context[: -len(c.ids)] for r, c in zip(requests, completions, strict=True)],
        )


def test_a_context_without_room_names_the_lengths(backend):
    positions = backend.model.config.max_position_embeddings
    asked = Request((5,) * (positions - 3), SAMPLING, np.random.default_rng(0))
    with pytest.raises(BackendError, match=rf"{positions - 3} tokens.*up to 6.*{positions}"):
        backend.complete([asked])
    with pytest.raises(BackendError, match="empty context"):
        backend.complete([replace(asked, context=())])


def test_a_failing_model_is_a_backend_error_with_its_cause(backend):
    asked = Request((10**6,), SAMPLING, np.random.default_rng(0))  # no such token
    with pytest.raises(BackendError, match="tiny failed on 1 requests") as caught:
        backend.complete([asked])
    assert isinstance(caught.value.__cause__, IndexError)
    assert backend.complete([]) == []


def test_a_folder_that_is_not_there_is_a_backend_error(tmp_path):
    with pytest.raises(BackendError, match="cannot load the model"):
        HuggingFaceBackend.load(tmp_path / "nothing", device="cpu")


def test_an_adapter_needs_a_peft_model(backend):
    with pytest.raises(BackendError, match="no PeftModel"):
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
    assert [c.model for c in mixed[0]] == [
        "base/red@0", "base/blue@0", "base/__base__@0", "base/blue@0", "base/red@0", "base@0",
    ]  # fmt: skip
    for name in ("red", "blue", "__base__"):
        single, _ = converse(adapted, rows=6, turns=3, adapters=[name] * 6)
        rows = [row for row, own in enumerate(names) if (own or "red") == name]
        assert_same([[t[r] for r in rows] for t in mixed], [[t[r] for r in rows] for t in single])
    red, _ = converse(adapted, rows=6, turns=3, adapters=["red"] * 6)
    blue, _ = converse(adapted, rows=6, turns=3, adapters=["blue"] * 6)
    assert any(a.logprobs != b.logprobs for a, b in zip(red[0], blue[0], strict=True))


def test_an_adapters_own_version_counts(adapted):
    adapted.weights_version = 3
    adapted.adapter_versions["blue"] = 7
    assert adapted.identity() == "base@3"
    assert adapted.identity("red") == "base/red@3"
    assert adapted.identity("blue") == "base/blue@7"


def test_adapters_are_served_from_a_model_in_training(adapted):
    adapted.model.train()
    modes = [module.training for module in adapted.model.modules()]
    trainable = [p.requires_grad for p in adapted.model.parameters()]
    converse(adapted, rows=2, turns=2, adapters=["red", "blue"])
    assert [module.training for module in adapted.model.modules()] == modes
    assert [p.requires_grad for p in adapted.model.parameters()] == trainable


def test_an_unknown_adapter_is_named(adapted):
    with pytest.raises(BackendError, match=r"green.*it has \['red', 'blue'\]"):
        converse(adapted, rows=2, turns=1, adapters=["red", "green"])
