import json
import math

import pytest
import torch
from torch import tensor

from srl_train.errors import ConfigError, UpdateError
from srl_train.updates import RoundContext, selective


def gradients_of(models):
    return {model: {"w": tensor([1.0])} for model in models}


def rounds(strategy, scores_of_rounds, models="abcd", start=0, state=None):
    """Who updated in each round, and the last state."""
    state = strategy.init(tuple(models)) if state is None else state
    updated = []
    for number, scores in enumerate(scores_of_rounds, start):
        context = RoundContext(number, 0, scores)
        given, state = strategy.on_gradients(gradients_of(models), state, context)
        updated.append("".join(model for model in models if given[model] is not None))
    return updated, state


ABCD = {"a": 20.0, "b": 15.0, "c": 10.0, "d": 5.0}  # far apart, in standard errors


@pytest.mark.parametrize(
    ("fraction", "expected"),
    [(0.5, "ab"), (0.74, "ab"), (0.75, "abc"), (1.0, "abcd"), (0.1, "a"), (0.0, "a")],
)
def test_the_top_fraction_updates_and_at_least_one(fraction, expected):
    assert rounds(selective(fraction), [ABCD])[0] == [expected]


def test_floats_do_not_lose_a_place():
    models = [f"m{i:03d}" for i in range(100)]  # 0.29 * 100 is 28.999999999999996
    strategy = selective(0.29)
    context = RoundContext(0, 0, {model: 10.0 * i for i, model in enumerate(models)})
    given, _ = strategy.on_gradients(gradients_of(models), strategy.init(models), context)
    assert sum(own is not None for own in given.values()) == 29


def test_the_floor_lets_everyone_learn():
    updated, state = rounds(selective(0.5, patience=2), [ABCD] * 6)
    # c and d are passed over in rounds 0 and 1, update in 2 beside the top, then wait again
    assert updated == ["ab", "ab", "abcd", "ab", "ab", "abcd"]
    assert state["waited"] == {"a": 0, "b": 0, "c": 0, "d": 0}


def test_ties_go_to_whoever_waited_longest_then_by_name():
    equal = dict.fromkeys("abcd", 1.0)
    assert rounds(selective(0.5, patience=99), [equal] * 4)[0] == ["ab", "cd", "ab", "cd"]
    assert rounds(selective(0.25, patience=99), [equal] * 5)[0] == ["a", "b", "c", "d", "a"]


def test_differences_within_noise_are_none():
    close = {"a": 4.0, "b": 3.0, "c": 2.0, "d": 1.0}  # each within 3 of the best
    assert rounds(selective(0.5, patience=99), [close] * 4)[0] == ["ab", "cd", "ab", "cd"]
    # d is far off, and comes only after the others.
    far = {**close, "d": -9.0}
    assert rounds(selective(0.5, patience=99), [far] * 3)[0] == ["ab", "ac", "ab"]


def test_one_choice_per_round_kept_through_its_steps():
    strategy = selective(0.5)
    state = strategy.init(("a", "b"))
    seen = []
    for number, step, scores in [
        (0, 0, {"a": 9.0, "b": 1.0}),
        (0, 1, {"a": 1.0, "b": 9.0}),  # scores do not change in a round; even then
        (1, 0, {"a": 1.0, "b": 9.0}),
        (1, 1, {"a": 1.0, "b": 9.0}),
    ]:
        context = RoundContext(number, step, scores)
        given, state = strategy.on_gradients(gradients_of("ab"), state, context)
        seen.append(next(model for model in "ab" if given[model] is not None))
    assert seen == ["a", "a", "b", "b"]
    assert state["waited"] == {"a": 1, "b": 0}


def test_a_round_played_again_chooses_again():
    strategy = selective(0.5)
    _, state = rounds(strategy, [{"a": 9.0, "b": 1.0}], models="ab")
    assert rounds(strategy, [{"a": 1.0, "b": 9.0}], models="ab", state=state)[0] == ["b"]


def test_models_without_a_score_or_gradient_are_no_candidates_and_do_not_wait():
    strategy = selective(0.5, patience=1)
    state = strategy.init(tuple("abcd"))
    gradients = {**gradients_of("abd"), "c": None}
    context = RoundContext(0, 0, {"a": 1.0, "b": 6.0, "c": 9.0})  # d has no score
    given, state = strategy.on_gradients(gradients, state, context)
    assert {model for model, own in given.items() if own is not None} == {"b"}
    assert state["waited"] == {"a": 1, "b": 0, "c": 0, "d": 0}


def test_nothing_to_choose_from():
    strategy = selective()
    state = strategy.init(("a",))
    given, state = strategy.on_gradients({"a": None}, state, RoundContext(0, 0, {}))
    assert given == {"a": None}
    given, _ = strategy.on_gradients({}, state, RoundContext(1, 0, {}))
    assert given == {}
    assert rounds(selective(), [{"a": 0.0}], models="a")[0] == ["a"]


def test_a_nan_model_that_is_not_selected_leaks_nothing():
    strategy = selective(0.5)
    weights = {model: torch.nn.Parameter(tensor([1.0])) for model in "ab"}
    optimizers = {model: torch.optim.AdamW([weights[model]], lr=0.1) for model in "ab"}
    state = strategy.init(("a", "b"))
    for number in range(3):
        gradients = {"a": {"w": tensor([1.0])}, "b": {"w": tensor([math.nan])}}
        context = RoundContext(number, 0, {"a": 9.0, "b": 0.0})
        given, state = strategy.on_gradients(gradients, state, context)
        assert given["b"] is None
        for model, own in given.items():
            weights[model].grad = None if own is None else own["w"]
            optimizers[model].step()
    assert weights["a"].item() < 1.0
    assert weights["b"].item() == 1.0  # to the bit: no momentum, no decay


def test_state_is_not_changed_in_place_and_continues_after_json():
    strategy = selective(0.5, patience=2)
    whole, _ = rounds(strategy, [ABCD] * 6)
    head, state = rounds(strategy, [ABCD] * 4)
    stored = json.dumps(state)
    rounds(strategy, [ABCD], start=4, state=state)
    assert json.dumps(state) == stored
    tail, _ = rounds(strategy, [ABCD] * 2, start=4, state=json.loads(stored))
    assert head + tail == whole


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"fraction": 1.1}, "selective fraction is 1.1: give 0 to 1"),
        ({"patience": 0}, "selective patience is 0: give 1 or more"),
    ],
)
def test_settings_out_of_bounds_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        selective(**settings)


def test_a_score_that_is_not_finite_is_refused():
    with pytest.raises(UpdateError, match="score of b must be finite, got nan"):
        rounds(selective(), [{"a": 1.0, "b": math.nan}], models="ab")
