"""Generalized advantages and value scales against numbers worked by hand."""

import numpy as np
import pytest

from srl_extensions.ppo.values import (
    DECAY,
    ValueScale,
    explained_variance,
    generalized_advantages,
    standardized,
)


def test_two_steps_by_hand():
    found = generalized_advantages([1.0, 2.0], [0.5, 1.0, 0.0], [0.5, 0.5], 0.5)
    # t=1: 2 + 0.5 * 0 - 1 = 1      t=0: (1 + 0.5 * 1 - 0.5) + 0.5 * 0.5 * 1 = 1.25
    assert found.tolist() == [1.25, 1.0]
    assert found.dtype == np.float64


def test_each_action_has_its_discount():
    found = generalized_advantages([0.0, 1.0, 4.0], [0.0, 0.0, 0.0, 0.0], [1.0, 0.5, 0.5], 1.0)
    # t=2: 4     t=1: 1 + 0.5 * 4 = 3     t=0: 0 + 1 * 3 = 3
    assert found.tolist() == [3.0, 3.0, 4.0]


@pytest.mark.parametrize("discount", [1.0, 0.9])
def test_lambda_zero_and_one(discount):
    rng = np.random.default_rng(0)
    rewards, values = rng.normal(size=5), np.append(rng.normal(size=5), 0.0)
    one_step = generalized_advantages(rewards, values, [discount] * 5, 0.0)
    np.testing.assert_allclose(one_step, rewards + discount * values[1:] - values[:-1])
    whole = generalized_advantages(rewards, values, [discount] * 5, 1.0)
    to_come = [sum(discount**k * r for k, r in enumerate(rewards[t:])) for t in range(5)]
    np.testing.assert_allclose(whole, np.array(to_come) - values[:-1])


def test_standardized_by_hand():
    # mean 2, deviation of the population sqrt(2 / 3)
    np.testing.assert_allclose(
        standardized(np.array([1.0, 2.0, 3.0])), np.array([-1, 0, 1]) * 1.5**0.5
    )
    assert standardized(np.array([2.0, 2.0])).tolist() == [0.0, 0.0]
    assert standardized(np.array([5.0])).tolist() == [0.0]


def test_standardized_by_step():
    # means 2 and 10; the lone turn 7 takes the mean of all, 6: -1, 1, -2, 2, 0; deviation sqrt 2
    found = standardized(np.array([1.0, 3.0, 8.0, 12.0, 6.0]), [0, 0, 1, 1, 7])
    np.testing.assert_allclose(found, np.array([-1, 1, -2, 2, 0]) / 2**0.5)


def test_explained_variance():
    returns = np.array([1.0, 2.0, 3.0])
    assert explained_variance(returns + 7.0, returns) == 1.0  # a constant error explains all
    assert explained_variance(np.zeros(3), returns) == 0.0
    assert explained_variance(-returns, returns) == -3.0  # Var(2 r) / Var(r) = 4
    assert explained_variance(np.ones(3), np.ones(3)) is None


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


def test_a_restored_scale_continues_equally():
    one, other = ValueScale(), ValueScale()
    one.update(np.array([1.0, 4.0]))
    other.load_state(one.state())
    for scale in (one, other):
        scale.update(np.array([5.0]))
    assert one.state() == other.state()
