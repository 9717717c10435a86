import math

import pytest
import torch
from torch import tensor
from torch.testing import assert_close

from srl_train.errors import ConfigError, UpdateError
from srl_train.updates import RoundContext, federated
from srl_train.updates.federated import score_weights

LN3 = math.log(3.0)


def met(after, scores, **settings):
    strategy = federated("scores", **{"temperature": 1.0, **settings})
    before = {model: own and {n: v * 0 for n, v in own.items()} for model, own in after.items()}
    context = RoundContext(round=0, step=0, scores=scores)
    taken, _ = strategy.on_weights(before, after, strategy.init(tuple(after)), context)
    return taken


def test_weighted_mean_by_hand():
    # softmax of (ln 3, 0) is (3/4, 1/4):  3/4 * 4 + 1/4 * 8 = 5,  3/4 * 0 + 1/4 * -4 = -1
    taken = met(
        {"a": {"w": tensor([4.0, 0.0])}, "b": {"w": tensor([8.0, -4.0])}}, {"a": LN3, "b": 0.0}
    )
    assert_close(taken["a"]["w"], tensor([5.0, -1.0]))
    assert torch.equal(taken["a"]["w"], taken["b"]["w"])


def test_temperature_divides_the_scores_and_mix_keeps_a_part():
    # scores 2 ln 3 and 0 at temperature 2: again 3/4 and 1/4, mean 5; half of it, half own
    taken = met(
        {"a": {"w": tensor([4.0])}, "b": {"w": tensor([8.0])}},
        {"a": 2 * LN3, "b": 0.0},
        temperature=2.0,
        mix=0.5,
    )
    assert_close(taken["a"]["w"], tensor([4.5]))  # (5 + 4) / 2
    assert_close(taken["b"]["w"], tensor([6.5]))  # (5 + 8) / 2


def test_mix_zero_keeps_every_model_as_it_is():
    after = {"a": {"w": tensor([4.0])}, "b": {"w": tensor([8.0])}}
    assert_close(met(after, {"a": 1.0, "b": 0.0}, mix=0.0), after, rtol=0, atol=0)


def test_a_model_without_a_score_counts_nothing_and_takes_the_mean():
    after = {"a": {"w": tensor([4.0])}, "b": {"w": tensor([8.0])}, "c": {"w": tensor([1e9])}}
    taken = met(after, {"a": 1.0, "b": 1.0})
    assert [taken[model]["w"].item() for model in "abc"] == [6.0, 6.0, 6.0]


def test_absent_models_stay_absent_and_without_scores_nothing_moves():
    after = {"a": {"w": tensor([4.0])}, "b": None}
    assert met(after, {"a": 1.0, "b": 5.0})["b"] is None
    assert met(after, {}) == after
    assert met({}, {}) == {}


def test_one_model_keeps_its_weights():
    assert met({"a": {"w": tensor([4.0])}}, {"a": -3.0})["a"]["w"].item() == 4.0


def test_a_model_of_no_weight_cannot_spoil_the_mean():
    # exp(-1000 / 0.1) is 0 in floats, and 0 * NaN would be NaN
    taken = met(
        {"a": {"w": tensor([4.0])}, "b": {"w": tensor([math.nan])}},
        {"a": 1000.0, "b": 0.0},
        temperature=0.1,
    )
    assert (taken["a"]["w"].item(), taken["b"]["w"].item()) == (4.0, 4.0)


def test_groups_meet_apart():
    after = {
        model: {"w": tensor([value])}
        for model, value in zip("abcd", (1.0, 3.0, 10.0, 20.0), strict=True)
    }
    scores = dict.fromkeys("abcd", 0.0)
    taken = met(after, scores, groups=(("a", "b"), ("c", "d")))
    assert [taken[model]["w"].item() for model in "abcd"] == [2.0, 2.0, 15.0, 15.0]


def test_score_weights_by_hand_and_at_extremes():
    assert score_weights({"a": LN3, "b": 0.0}, 1.0) == pytest.approx({"a": 0.75, "b": 0.25})
    assert score_weights({"a": 1e6, "b": 1e6}, 1e-3) == {"a": 0.5, "b": 0.5}
    assert score_weights({"a": -1e9, "b": 1e9}, 1e-3) == {"a": 0.0, "b": 1.0}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": 0.0}, "federated temperature is 0.0: give more than 0"),
        ({"temperature": math.nan}, "federated temperature is nan"),
        ({"mix": 1.5}, "federated mix is 1.5: give 0 to 1"),
    ],
)
def test_settings_out_of_bounds_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        federated(**settings)


def test_scores_must_be_finite_and_models_alike():
    after = {"a": {"w": tensor([4.0])}, "b": {"w": tensor([8.0])}}
    with pytest.raises(UpdateError, match="the score of b is nan: give a finite number"):
        met(after, {"a": 1.0, "b": math.nan})
    with pytest.raises(UpdateError, match="a and b cannot be averaged"):
        met({"a": {"w": tensor([4.0])}, "b": {"v": tensor([8.0])}}, {"a": 1.0, "b": 1.0})


def test_averaging_adapters_apart_is_not_averaging_their_product():
    """What the docstring warns of, in numbers: exact with a shared A, off without."""
    b, a = "lora_B", "lora_A"
    scores = {"x": 0.0, "y": 0.0}

    def products(adapters):
        return {model: (own[b] @ own[a]).item() for model, own in adapters.items()}

    shared = {
        "x": {b: tensor([[1.0]]), a: tensor([[2.0]])},
        "y": {b: tensor([[3.0]]), a: tensor([[2.0]])},
    }
    assert products(met(shared, scores))["x"] == 4.0  # (1*2 + 3*2) / 2 = 4
    apart = {
        "x": {b: tensor([[1.0]]), a: tensor([[2.0]])},
        "y": {b: tensor([[3.0]]), a: tensor([[0.0]])},
    }
    assert products(met(apart, scores))["x"] == 2.0  # 2 * 1, where the mean product is 1
