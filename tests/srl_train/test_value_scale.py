"""Running mean and deviation of a critic's targets, against numbers worked by hand."""

import numpy as np
import pytest

from srl_train.returns import DECAY, ValueScale


def test_the_first_update_is_the_scale_and_the_second_a_mixture():
    scale = ValueScale()
    assert scale.restore(np.array([0.5])).tolist() == [0.5], "nothing is known yet"
    scale.update(np.array([1.0, 3.0]))  # mean 2, deviation 1
    np.testing.assert_allclose(scale.normalize(np.array([1.0, 3.0])), [-1.0, 1.0], rtol=1e-7)
    scale.update(np.array([8.0, 12.0]))
    older, newer = DECAY / (1 + DECAY), 1 / (1 + DECAY)
    mean = older * 2 + newer * 10
    second = older * (1 + 9) / 2 + newer * (64 + 144) / 2
    values = np.array([0.0, 1.0, -2.0])
    np.testing.assert_allclose(
        scale.restore(values), mean + values * np.sqrt(second - mean**2), rtol=1e-7
    )
    np.testing.assert_allclose(scale.normalize(scale.restore(values)), values)


def test_equal_returns_are_the_mean_and_nothing_is_divided_by_zero():
    scale = ValueScale()
    scale.update(np.full(3, 7.0))
    assert scale.normalize(np.full(2, 7.0)).tolist() == [0.0, 0.0]
    assert scale.restore(np.zeros(1)) == pytest.approx(7.0)


def test_what_is_restored_goes_on_alike():
    one, other = ValueScale(), ValueScale()
    one.update(np.array([1.0, 4.0]))
    other.load_state(one.state())
    for scale in (one, other):
        scale.update(np.array([5.0]))
    assert one.state() == other.state()
