"""Fair queues: who is next, by hand, and how far owners may drift from their shares."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srl_agents.serving.scheduling.fair_queue import FairQueue, equal_shares, shares_by_score


def queue_of(**waiting):
    """Items are (owner, number) and cost what is listed."""
    queue, costs = FairQueue(equal_shares), {}
    for owner, all_costs in waiting.items():
        for number, cost in enumerate(all_costs):
            queue.push(owner, (owner, number))
            costs[owner, number] = cost
    return queue, costs


def taken(queue, costs, count):
    order = []
    for _ in range(count):
        owner = queue.next_owner()
        item = queue.waiting(owner)[0]
        queue.take(owner, item, costs[item])
        order.append(owner)
    return "".join(order)


def test_owners_take_turns_by_cost():
    # Start tags (two owners: cost * 2): a 0 20 40 60, b 0 60; equal tags in the order of coming.
    queue, costs = queue_of(a=[10, 10, 10, 10], b=[30, 30])
    assert taken(queue, costs, 6) == "abaaab"
    assert len(queue) == 0


def test_an_owner_that_was_away_saves_nothing_up():
    queue, costs = queue_of(a=[10] * 8, b=[10])
    assert taken(queue, costs, 5) == "abaaa"
    for number in range(1, 5):
        queue.push("b", ("b", number))
        costs["b", number] = 10
    # Since b came back both take turns: it is not given what it might have had in between.
    assert taken(queue, costs, 6) in ("bababa", "ababab", "babaab")


def test_an_owner_that_was_ahead_and_pauses_stays_ahead():
    queue, costs = queue_of(a=[100], b=[10] * 5)
    assert taken(queue, costs, 2) == "ab"
    queue.push("a", ("a", 1))
    costs["a", 1] = 10
    assert (
        taken(queue, costs, 5) == "bbbba"
    )  # a's next tag is the 200 that its first one took it to


def test_what_was_not_served_costs_nothing_and_goes_first():
    queue, costs = queue_of(a=[10, 10, 10], b=[10, 10])
    charge = queue.take("a", ("a", 0), 10)
    assert charge == 20  # half of all is a's
    queue.put_back("a", ("a", 0), charge)
    assert list(queue.waiting("a")) == [("a", 0), ("a", 1), ("a", 2)]
    assert taken(queue, costs, 5) == "ababa"


def test_what_is_given_up_is_gone():
    queue, _ = queue_of(a=[10, 10], b=[10])
    queue.remove("a", ("a", 0))
    assert queue.items() == [("a", 1), ("b", 0)] and len(queue) == 2
    queue.remove("a", ("a", 1))
    assert queue.next_owner() == "b"
    with pytest.raises(ValueError):
        queue.remove("a", ("a", 1))


@given(
    st.dictionaries(
        st.sampled_from("abcde"),
        st.lists(st.integers(1, 100), min_size=15, max_size=15),
        min_size=2,
    ),
    st.lists(st.floats(0.1, 10), min_size=5, max_size=5),
)
def test_owners_that_wait_drift_by_their_largest_items_at_most(waiting, weights):
    total = sum(weights[: len(waiting)])
    shares = {owner: weight / total for owner, weight in zip(waiting, weights, strict=False)}
    queue = FairQueue(lambda owners: shares)
    for owner, costs in waiting.items():
        for cost in costs:
            queue.push(owner, [owner, cost])
    served = dict.fromkeys(waiting, 0.0)
    while all(queue.waiting(owner) for owner in waiting):
        owner = queue.next_owner()
        item = queue.waiting(owner)[0]
        queue.take(owner, item, item[1])
        served[owner] += item[1] / shares[owner]
        for one in waiting:
            for other in waiting:
                allowed = max(waiting[one]) / shares[one] + max(waiting[other]) / shares[other]
                assert abs(served[one] - served[other]) <= allowed + 1e-6


def test_shares_by_score_by_hand():
    # e^1 : e^0 = 2.718 : 1, of four fifths; the rest is even.
    got = shares_by_score(["a", "b"], {"a": 1.0, "b": 0.0, "away": 9.0}, temperature=1.0, floor=0.2)
    assert got == pytest.approx(
        {"a": 0.1 + 0.8 * math.e / (math.e + 1), "b": 0.1 + 0.8 / (math.e + 1)}
    )
    cold = shares_by_score(["a", "b"], {"a": 1.0, "b": 0.0}, temperature=1e-3, floor=0.2)
    assert cold == pytest.approx({"a": 0.9, "b": 0.1})


def test_an_owner_without_a_score_has_the_mean_one():
    got = shares_by_score(["a", "b", "new"], {"a": 2.0, "b": 0.0}, temperature=1.0, floor=0.1)
    same = shares_by_score(["a", "b", "new"], {"a": 2.0, "b": 0.0, "new": 1.0}, 1.0, 0.1)
    assert got == same
    assert shares_by_score(["a", "b"], {}, 1.0, 0.1) == {"a": 0.5, "b": 0.5}


@given(
    st.dictionaries(st.integers(), st.floats(-1e300, 1e300), min_size=1, max_size=8),
    st.floats(1e-3, 1e3),
    st.floats(0.01, 1),
)
def test_shares_are_one_in_sum_and_nobodys_is_below_the_floor(scores, temperature, floor):
    shares = shares_by_score(list(scores), scores, temperature, floor)
    assert sum(shares.values()) == pytest.approx(1)
    assert min(shares.values()) >= floor / len(scores) * (1 - 1e-9)
