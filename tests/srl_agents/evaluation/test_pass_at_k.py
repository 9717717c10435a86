"""The estimator of pass@k against numbers worked by hand, and against counting."""

from itertools import combinations

import pytest

from srl_agents.evaluation.solved import pass_at_k


@pytest.mark.parametrize(
    ("n", "c", "k", "expected"),
    [
        (5, 2, 1, 2 / 5),
        (5, 2, 2, 1 - 3 / 10),  # 3 of the 10 pairs hold none of the two
        (5, 2, 3, 1 - 1 / 10),
        (5, 2, 4, 1.0),
        (4, 1, 2, 1 / 2),
        (10, 3, 5, 1 - 21 / 252),
        (7, 0, 3, 0.0),
        (7, 7, 1, 1.0),
        (1, 0, 1, 0.0),
    ],
)
def test_worked_by_hand(n, c, k, expected):
    assert pass_at_k(n, c, k) == pytest.approx(expected, abs=1e-15)


def test_it_counts_the_choices_that_hold_a_solution():
    for n in range(1, 8):
        for c in range(n + 1):
            for k in range(1, n + 1):
                chosen = list(combinations(range(n), k))
                share = sum(min(one) < c for one in chosen) / len(chosen)
                assert pass_at_k(n, c, k) == pytest.approx(share)


def test_many_samples_are_no_trouble():
    assert pass_at_k(2000, 1, 1000) == pytest.approx(0.5)
    assert pass_at_k(2000, 1000, 1) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("n", "c", "k", "says"),
    [
        (4, 2, 5, r"pass@5 of 4 answers: k must be 1 to 4"),
        (4, 2, 0, r"pass@0 of 4 answers"),
        (4, 5, 1, r"5 of 4 answers solve"),
        (4, -1, 1, r"-1 of 4 answers solve"),
    ],
)
def test_what_cannot_be_is_refused(n, c, k, says):
    with pytest.raises(ValueError, match=says):
        pass_at_k(n, c, k)
