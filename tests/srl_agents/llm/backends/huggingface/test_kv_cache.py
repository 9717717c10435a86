from dataclasses import replace

import pytest
import torch
from transformers import LlamaForCausalLM

from srl_agents.llm.backends.token_backend import Request
from tests.srl_agents.llm.backends.huggingface.conversations import (
    SAMPLING,
    assert_same,
    converse,
    last_turn,
    seeds_again,
    wild,
)

FRESH = {"conversation": None}


@pytest.fixture
def passes(monkeypatch):
    """Record the widths of forward passes, in tokens per row."""
    widths = []
    original = LlamaForCausalLM.forward

    def counted(self, *args, **settings):
        widths.append(settings["input_ids"].shape[1])
        return original(self, *args, **settings)

    monkeypatch.setattr(LlamaForCausalLM, "forward", counted)
    return widths


@pytest.mark.parametrize("constrained", [False, True])
def test_answers_do_not_depend_on_the_cache(backend, constrained, passes):
    model = wild(backend)
    kept, _ = converse(model, rows=5, turns=5, constrained=constrained)
    with_cache = sum(passes)
    passes.clear()
    fresh, _ = converse(model, rows=5, turns=5, constrained=constrained, keep=False)
    assert_same(kept, fresh)
    assert with_cache < 0.6 * sum(passes)
    lengths = {len(c.ids) for turn in kept for c in turn}
    assert constrained or len(lengths) > 1, "the rows should have ended at different times"


def test_number_of_forward_passes_per_step(backend, passes):
    converse(backend, rows=3, turns=4, constrained=True)
    assert len(passes) == 4, "one choice, then a forced end of turn"
    passes.clear()
    answers = (backend.chat.answer("compete"),)
    [done] = backend.sample([Request((1, 2), SAMPLING, 0, answers=answers)])
    assert backend.chat.text(done.ids) == "compete"
    assert not passes, "nothing to choose, nothing to compute"


@pytest.mark.parametrize(
    ("rows", "reused"),
    [
        ([0, 1, 2, 3], True),
        ([3, 1, 0, 2], True),
        ([2, 0], True),
        ([1, 1], False),
    ],
)
def test_rows_may_return_in_any_order_and_number(backend, passes, rows, reused):
    model = wild(backend)
    _, requests = converse(model, rows=4, turns=3)
    chosen = [requests[row] for row in rows]
    passes.clear()
    kept = last_turn(model, seeds_again(chosen))
    assert (passes[0] < 15) is reused
    assert_same(kept, last_turn(model, seeds_again(chosen), **FRESH))


def test_a_cache_of_another_context_is_not_used(backend, passes):
    model = wild(backend)
    _, requests = converse(model, rows=3, turns=2)
    last_turn(model, seeds_again(requests))
    passes.clear()
    again = last_turn(model, seeds_again(requests))  # the handles are of the turn before
    assert passes[0] > 15
    assert_same(again, last_turn(model, seeds_again(requests), **FRESH))

    _, requests = converse(model, rows=3, turns=2)
    last_turn(model, seeds_again(requests[:1]))  # the others' rows are given up
    others = requests[1:]
    assert_same(
        last_turn(model, seeds_again(others)),
        last_turn(model, seeds_again(others), **FRESH),
    )

    _, requests = converse(model, rows=3, turns=2)
    edited = [replace(r, context=(9, *r.context[1:])) for r in requests]
    passes.clear()
    assert_same(
        last_turn(model, seeds_again(edited)),
        last_turn(model, seeds_again(edited), **FRESH),
    )
    assert passes[0] > 15

    _, requests = converse(model, rows=3, turns=2)
    _, others = converse(model, rows=3, turns=2)
    mixed = seeds_again([requests[0], others[1], replace(requests[2], **FRESH)])
    assert_same(last_turn(model, mixed), last_turn(model, seeds_again(mixed), **FRESH))


def test_new_weights_make_the_cache_invalid(backend):
    model = wild(backend)
    _, requests = converse(model, rows=3, turns=3)
    with torch.no_grad():
        for parameter in model.model.parameters():
            parameter.mul_(1.1)
    model.weights_version += 1
    new = last_turn(model, seeds_again(requests))
    assert str(new[0][0].model) == "wild@1"
    assert_same(new, last_turn(model, seeds_again(requests), **FRESH))


def test_equal_first_prompts_are_read_once(backend, monkeypatch):
    model = wild(backend)
    batches = []
    original = LlamaForCausalLM.forward

    def counted(self, *args, **settings):
        batches.append(settings["input_ids"].shape[0])
        return original(self, *args, **settings)

    monkeypatch.setattr(LlamaForCausalLM, "forward", counted)
    contexts = [(5, 6, 7), (8, 9), (5, 6, 7), (5, 6, 7)]
    requests = [Request(c, SAMPLING, i) for i, c in enumerate(contexts)]
    together = model.sample(requests)
    assert batches[0] == 2
    assert set(batches[1:]) <= {4}
    assert len({c.ids for c in together}) > 2, "alike at first, each then goes its own way"
    for index, completion in enumerate(together):
        assert_same([[completion]], [model.sample([requests[index]])])
