"""Sample buffers: budgets, order, staleness, and saved states."""

from dataclasses import replace

import pytest

from srl_train.samples import SampleBuffer, TokenSample


def sample(number, round_number=0, version=0, allowed=None, agent="a"):
    return TokenSample(
        prompt_ids=(1,),
        completion_ids=(number, 5),
        mask=(1, 0),
        logprobs=(-0.1, 0.0),
        allowed=allowed,
        turns=((0, 1),),
        elapsed=(1,),
        rewards=(float(number),),
        episode_return=float(number),
        group=(round_number, 9, agent),
        version=version,
    )


def numbers(taken):
    return [s.completion_ids[0] for s in taken.samples]


def samples(first, count, **kw):
    return [sample(number, **kw) for number in range(first, first + count)]


def test_without_a_budget_a_rounds_samples_are_taken():
    buffer = SampleBuffer(2, None, 4)
    assert buffer.take(0, 0) is None
    buffer.add(samples(0, 2))
    buffer.add(samples(2, 4))
    assert len(buffer) == 6
    assert numbers(buffer.take(0, 0)) == [0, 1, 2, 3, 4, 5]
    assert len(buffer) == 0
    assert buffer.take(0, 0) is None


def test_a_full_budget_takes_the_oldest_samples():
    buffer = SampleBuffer(2, 4, 4)
    buffer.add(samples(0, 2))
    assert buffer.take(0, 0) is None
    assert len(buffer) == 2, "what is waiting must not be lost"
    buffer.add(samples(2, 8))
    assert [numbers(buffer.take(0, 0)) for _ in range(2)] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert buffer.take(0, 0) is None
    assert len(buffer) == 2


def test_staleness_counts_updates_and_age_counts_rounds():
    buffer = SampleBuffer(2, 4, 4)
    buffer.add(samples(0, 2, round_number=3, version=5))
    buffer.add(samples(2, 2, round_number=4, version=6))
    taken = buffer.take(7, 4)
    assert taken.staleness == (2, 2, 1, 1)
    assert taken.age == (1, 1, 0, 0)


@pytest.mark.parametrize(
    "version, left, dropped", [(2, [0, 1, 2, 3], 0), (3, [2, 3], 2), (4, [2, 3], 2), (5, None, 4)]
)
def test_stale_samples_are_dropped_and_counted(version, left, dropped):
    buffer = SampleBuffer(2, None, max_staleness=2)
    buffer.add(samples(0, 2, version=0))
    buffer.add(samples(2, 2, version=2))
    taken = buffer.take(version, 0)
    assert (numbers(taken) if taken else None) == left
    assert buffer.dropped.total() == dropped
    buffer.take(version, 0)
    assert buffer.dropped.total() == dropped, "counted twice"


def test_one_stale_member_drops_its_whole_group():
    buffer = SampleBuffer(2, None, max_staleness=1)
    buffer.add([sample(0, version=0), sample(1, version=3), *samples(2, 2, version=3)])
    assert numbers(buffer.take(3, 0)) == [2, 3]
    assert buffer.dropped == {"a": 2}


def test_restored_buffer_continues_with_the_same_samples():
    allowed = (None, (3, 4))
    buffer = SampleBuffer(2, 4, max_staleness=1)
    buffer.add(samples(0, 2, version=0))
    cut = replace(sample(3, 7, 2), closing_ids=(6, 7), closing_state=(0.5,))
    buffer.add([sample(2, 7, 2, allowed), cut])
    assert buffer.take(2, 7) is None
    state = buffer.state()
    state["samples"] = [TokenSample(**record) for record in state["samples"]]

    restored = SampleBuffer(2, 4, max_staleness=1)
    restored.add(samples(50, 2))
    restored.load_state(state)
    assert restored.dropped == buffer.dropped == {"a": 2}
    assert restored.state() == buffer.state()
    for one in (buffer, restored):
        one.add(samples(4, 2, round_number=8, version=2))
    taken = restored.take(2, 8)
    assert taken == buffer.take(2, 8)
    assert taken.samples[0].allowed == allowed
    assert taken.samples[1] == cut
