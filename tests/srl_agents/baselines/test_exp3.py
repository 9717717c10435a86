import numpy as np
import pytest

from srl_agents.baselines.learners import EXP3Runs


def test_an_update_by_hand():
    player = EXP3Runs([0], exploration=0.2)
    _, [chance] = player.act()
    assert chance == 0.5
    # Action 1 earned 1 + 1 at chance 1/2: an estimate of 4, a logit of .2 / 2 * 4 = .4.
    player.update(np.array([[1, 0, 1]], np.int8), np.array([[1.0, 0.0, 1.0]]))
    expected = 0.8 / (1 + np.exp(-0.4)) + 0.1
    chances = {int(action): chance for [action], [chance] in (player.act() for _ in range(20))}
    assert chances[1] == pytest.approx(expected)
    assert chances[0] == pytest.approx(1 - expected)


def test_it_finds_the_best_of_three():
    player, generator = EXP3Runs([1], actions=3), np.random.default_rng(0)
    for _ in range(60):
        own = np.stack([player.act()[0] for _ in range(32)], axis=1)
        player.update(own, np.array([0.2, 0.8, 0.5])[own] + 0.05 * generator.standard_normal())
    assert np.mean(own == 1) > 0.8


def test_says_what_is_wrong():
    with pytest.raises(ValueError, match="exploration must be above 0 and at most 1, got 0"):
        EXP3Runs([0], exploration=0)
