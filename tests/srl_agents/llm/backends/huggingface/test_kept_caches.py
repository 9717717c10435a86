"""Limits on the key-value caches of conversations."""

from srl_agents.llm.backends.token_backend import Request
from tests.srl_agents.llm.backends.huggingface.conversations import SAMPLING, assert_same, converse


def ask(backend, conversation, context):
    [done] = backend.sample([Request(context, SAMPLING, conversation, conversation=conversation)])
    return (*context, *done.ids)


def test_kept_and_reused_tokens_are_counted(backend):
    context = ask(backend, 1, (1, 2, 3))
    assert backend.caches.tokens == len(context) - 1  # the last token was not read yet
    ask(backend, 1, (*context, 4))
    assert backend.caches.reused == len(context) - 1


def test_the_least_recently_used_cache_is_dropped(backend):
    contexts = {number: ask(backend, number, (1, 2, number)) for number in (1, 2, 3)}
    contexts[1] = ask(backend, 1, (*contexts[1], 9))
    backend.caches.most_tokens = kept = backend.caches.tokens
    ask(backend, 3, (*contexts[3], 9))
    assert backend.caches.of(2) is None
    assert backend.caches.of(1) is not None and backend.caches.of(3) is not None
    assert backend.caches.dropped == 1
    assert backend.caches.tokens <= kept


def test_without_batches_nothing_is_cached_and_answers_are_equal(backend, monkeypatch):
    together, _ = converse(backend, rows=4, turns=2, constrained=False)
    backend = backend.with_model(backend.model)
    batches = []
    forward = backend._sampled
    monkeypatch.setattr(backend, "_sampled", lambda asked: batches.append(asked) or forward(asked))
    backend.batched = False
    alone, _ = converse(backend, rows=4, turns=2, constrained=False)
    assert_same(together, alone)
    assert {len(asked) for asked in batches} == {1}
    assert backend.caches.tokens == 0
