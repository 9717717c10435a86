from math import exp, log

import numpy as np
import pytest

from srl_agents.baselines import SimplePG
from srl_agents.baselines.learners import SimplePGRuns


def test_update_by_hand():
    learner = SimplePG(lr=0.4)
    # p = .5, mean reward 2: mean of (.5 * 2, -.5 * -1, -.5 * -1) = 2/3
    learner.update([(1, log(0.5), 4.0), (0, log(0.5), 1.0), (0, log(0.5), 1.0)])
    assert learner.theta == pytest.approx(0.4 * 2 / 3)
    p = 1 / (1 + exp(-learner.theta))
    before = learner.theta
    # mean reward .5: ((1 - p) * -.5 + (0 - p) * .5) / 2 = -.25
    learner.update([(1, log(p), 0.0), (0, log(1 - p), 1.0)])
    assert learner.theta == pytest.approx(before + 0.4 * -0.25)


def test_act_draws_from_the_policy_and_returns_the_log_probability():
    learner = SimplePG(lr=1.0, seed=1)
    learner.update([(1, log(0.5), 8.0), (0, log(0.5), 0.0)])  # theta = 2
    drawn = [learner.act() for _ in range(3000)]
    p = 1 / (1 + exp(-2.0))
    assert np.mean([action for action, _ in drawn]) == pytest.approx(p, abs=0.02)
    for action, logprob in drawn[:50]:
        assert logprob == pytest.approx(log(p if action else 1 - p))


def test_runs_in_array_form_equal_single_learners():
    seeds, rewards = (4, 5, 6), np.random.default_rng(0).random((3, 40))
    runs, singles = SimplePGRuns(seeds, lr=5.0), [SimplePG(5.0, seed=seed) for seed in seeds]
    for half in (slice(0, 20), slice(20, 40)):
        together = np.stack([runs.act()[0] for _ in range(20)], axis=1)
        alone = np.array([[single.act()[0] for _ in range(20)] for single in singles])
        assert together.tolist() == alone.tolist()
        runs.update(together, rewards[:, half])
        for single, actions, earned in zip(singles, alone, rewards[:, half], strict=True):
            single.update([(int(a), 0.0, r) for a, r in zip(actions, earned, strict=True)])
        assert runs.theta.tolist() == [single.theta for single in singles]


def test_invalid_arguments_are_rejected():
    with pytest.raises(ValueError, match="at least one"):
        SimplePG().update([])
    with pytest.raises(ValueError, match="lr must be above 0, got 0"):
        SimplePG(lr=0)
