"""Discounted returns against numbers worked by hand."""

import numpy as np
import pytest

from srl_train.trajectory import discounted_return


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
