import numpy as np
import pytest

from srl_agents.baselines.opponent_model import PartnerModel, PayoffTable

ROUNDS = 32


def watched(partner, episodes, *, fading=0.9, seed=0, plays=None):
    """Return a model after episodes of `partner(episode, own actions, rng)` against random
    actions, or against the constant action `plays`."""
    generator = np.random.default_rng(seed)
    model = PartnerModel(1, fading)
    for episode in range(episodes):
        own = (generator.random(ROUNDS) < 0.5).astype(np.int8)
        if plays is not None:
            own[:] = plays
        other = np.asarray(partner(episode, own, generator), np.int8)
        model.add(own[None], other[None])
    return model


def coin(q):
    return lambda episode, own, generator: generator.random(ROUNDS) < q


def tit_for_tat(episode, own, generator):
    return np.concatenate([[1], own[:-1]])


def learner(rate):
    """Return a partner that moves its logit by `rate` per episode toward the opponent's action."""
    logit = 0.0

    def play(episode, own, generator):
        nonlocal logit
        p = 1 / (1 + np.exp(-logit))
        logit += rate * p * (1 - p) * (2 * own.mean() - 1)
        return generator.random(ROUNDS) < p

    return play


@pytest.mark.parametrize("q", [0.0, 0.1, 0.5, 0.8, 1.0])
def test_replies_converge_to_a_stationary_probability(q):
    model = watched(coin(q), 30)
    met = {0.0: [0, 1, 3], 1.0: [0, 2, 4]}.get(q, [0, 1, 2, 3, 4])  # situations
    assert model.replies()[0, met, 1] == pytest.approx(np.full(len(met), q), abs=0.08)
    assert model.learner()[0] < 0.5


def test_recognizes_tit_for_tat():
    model = watched(tit_for_tat, 6)
    assert model.learner()[0] < 0.01
    assert model.replies()[0, :, 1] == pytest.approx([1, 0, 0, 1, 1], abs=0.15)


def test_recognizes_a_learner_and_predicts_its_response_to_a_constant_action():
    model = watched(learner(1.0), 12, plays=1)
    assert model.learner()[0] > 0.8
    led = model.led()[0]
    assert led[0] < 0.4 and led[1] > 0.9


def test_discounted_counts_follow_a_changing_partner():
    def turncoat(episode, own, generator):
        return generator.random(ROUNDS) < (0.9 if episode < 40 else 0.1)

    forgetful, faithful = (watched(turncoat, 50, fading=fading) for fading in (0.8, 1.0))
    assert faithful.replies()[0, :, 1].mean() > 0.5
    assert forgetful.replies()[0, :, 1].mean() < 0.35


def test_doubt_decreases_with_observations():
    unseen, seen = PartnerModel(1, 0.9), watched(coin(0.5), 30)
    assert unseen.doubt(8)[0] == pytest.approx(np.full(5, np.sqrt(0.25 / 2)))
    assert (seen.doubt(8)[0] < 0.1).all()


def test_three_actions():
    model = PartnerModel(1, 0.9, actions=3)
    own = np.array([[0, 1, 2] * 10], np.int8)
    for _ in range(4):
        model.add(own, np.roll(own, 1, axis=1))  # The partner repeats the last own action.
    replies = model.replies()[0]
    assert replies[1 + 3 * 1 + 0].argmax() == 1 and replies[1 + 3 * 2 + 1].argmax() == 2
    assert model.learner()[0] == 0.0


def test_payoffs_by_hand():
    table = PayoffTable(1)
    own, other = np.array([[1, 1, 0, 0, 1, 0]], np.int8), np.array([[1, 1, 0, 0, 1, 0]], np.int8)
    rewards = np.array([[1.0, 2.0, 5.0, 5.0, 3.0, 5.0]])
    table.add(own, other, rewards)
    overall = 21 / 6
    mean, error = table.mean()[0], table.error()[0]
    assert mean[1, 1] == pytest.approx((6 + 0.1 * overall) / 3.1)
    assert mean[1, 0] == mean[0, 1] == pytest.approx(overall)
    # Squared deviations from the two means: 1 + 0 + 1 and 0, with 6 - 2 degrees of freedom.
    assert table.noise()[0] == pytest.approx(np.sqrt(0.5))
    assert error[1, 1] == error[0, 0] == pytest.approx(np.sqrt(0.5 / 3))
    assert error[1, 0] == pytest.approx(rewards.std())
