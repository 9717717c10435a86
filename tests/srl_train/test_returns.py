import numpy as np
import pytest

from srl_train.returns import discounted_return, group_advantages


@pytest.mark.parametrize(
    ("rewards", "discount", "expected"),
    [
        ([1.0, 2.0, 4.0], 0.5, 3.0),  # 1 + 0.5 * 2 + 0.25 * 4
        ([1.0, 2.0, 4.0], 1.0, 7.0),
        ([1.0, 2.0, 4.0], 0.0, 1.0),
        ([-2.5], 0.9, -2.5),
        ([], 0.9, 0.0),
    ],
)
def test_discounted_return_by_hand(rewards, discount, expected):
    assert discounted_return(rewards, discount) == expected
    assert discounted_return(np.array(rewards), discount) == expected


def test_group_advantages_by_hand():
    # mean 3; deviations -2, 0, 2; variance (4 + 0 + 4) / 2 = 4, deviation 2
    plain = group_advantages([1.0, 3.0, 5.0], scale=False)
    np.testing.assert_array_equal(plain, [-2.0, 0.0, 2.0])
    scaled = group_advantages([1.0, 3.0, 5.0])
    np.testing.assert_allclose(scaled, [-2 / 2.0001, 0.0, 2 / 2.0001], rtol=1e-12)


@pytest.mark.parametrize("returns", [[], [5.0], [0.1, 0.1, 0.1], [-7.0] * 8])
@pytest.mark.parametrize("scale", [True, False])
def test_groups_that_say_nothing_give_zeros(returns, scale):
    np.testing.assert_array_equal(group_advantages(returns, scale), np.zeros(len(returns)))


def test_given_arrays_are_left_alone():
    returns = np.array([1.0, 2.0])
    group_advantages(returns)
    discounted_return(returns, 0.5)
    np.testing.assert_array_equal(returns, [1.0, 2.0])
