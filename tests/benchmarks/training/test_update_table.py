"""The table is measured, and every check of it sees what it is there to see."""

import dataclasses
import json

import pytest
import torch

from benchmarks.training import sample_budgets, update_checks, update_table
from benchmarks.training.observed_run import observe
from srl_train.config.yaml_file import from_tree


@pytest.fixture(scope="module")
def observed(tiny_folder):
    """Strategy -> two observed rounds of the same start."""
    setting = {
        "environment.options": {"num_agents": 4, "max_cycles": 2},
        "models.base": tiny_folder,
        "models.sampling.max_new_tokens": 4,
        "rollout.group_size": 2,
        "rollout.groups_per_round": 2,
        "rounds": 2,
    }
    found = {}
    for strategy in ("asynchronous", "synchronized", "federated", "selective"):
        own = {"updates.strategy": strategy, **update_table.OF_STRATEGY.get(strategy, {})}
        found[strategy] = observe(from_tree({}, {**setting, **own}))
    return found


def held(checks):
    return [check.held for check in checks]


def nudged(weights, model):
    """A copy in which one number of one model is one step of float32 higher."""
    copy = {m: dict(own) for m, own in weights.items()}
    name = next(iter(copy[model]))
    tensor = copy[model][name].clone()
    first = tensor.view(-1)[:1]
    first.copy_(torch.nextafter(first, first + 1))
    copy[model][name] = tensor
    return copy


def test_claims_hold_of_real_runs(observed):
    alone = observed["asynchronous"][0]
    for rounds in observed.values():
        assert update_checks.accounted(rounds).held
    assert held(update_checks.each_on_its_own(observed["asynchronous"])) == [True]
    assert held(update_checks.stay_equal(observed["synchronized"])) == [True, True]
    assert held(update_checks.unselected_rest(observed["selective"])) == [True] * 3
    assert held(update_checks.is_weighted_mean(observed["federated"], alone, 1.0)) == [True, True]


def test_one_bit_is_seen_in_models_that_should_be_equal(observed):
    first, last = observed["synchronized"]
    spoilt = dataclasses.replace(last, after=nudged(last.after, "model_2"))
    assert held(update_checks.stay_equal([first, spoilt])) == [True, False]
    assert held(update_checks.stay_equal(observed["asynchronous"])) == [True, False]


def test_one_bit_is_seen_in_a_model_that_should_rest(observed):
    first, last = observed["selective"]
    resting = next(model for model in first.after if model not in first.selected)
    spoilt = dataclasses.replace(first, after=nudged(first.after, resting))
    assert held(update_checks.unselected_rest([spoilt, last]))[0] is False


def test_wrong_shares_are_seen_in_the_weighted_mean(observed):
    alone = observed["asynchronous"][0]
    assert held(update_checks.is_weighted_mean(observed["federated"], alone, 1000.0))[0] is False


def test_models_that_learned_otherwise_are_seen_in_the_mean(observed):
    other = observed["asynchronous"][1]
    assert held(update_checks.is_weighted_mean(observed["federated"], other, 1.0))[1] is False


def test_a_wrong_account_is_seen(observed):
    first, last = observed["selective"]
    resting = next(model for model in first.after if model not in first.selected)
    row = json.loads(json.dumps(first.row))
    row["models"][resting]["updated"] = True
    assert not update_checks.accounted([dataclasses.replace(first, row=row), last]).held


def test_softmax_by_hand():
    # e^0 : e^-1 = 1 : 0.36788
    assert update_checks.softmax({"a": 2.0, "b": 1.0}, 1.0) == pytest.approx(
        {"a": 0.731059, "b": 0.268941}, abs=1e-6
    )


def test_the_whole_table(small_setting, monkeypatch):
    monkeypatch.setattr(sample_budgets, "TIMES", 2)
    setting = {k: v for k, v in small_setting.items() if k != "rounds"}
    result = update_table.measure(
        2, 2, setting, modes=["competitive"], strategies=["asynchronous", "selective"]
    )
    assert set(result["changes"]) == {"asynchronous", "selective"}
    changes = result["changes"]["selective"]["competitive"]
    assert len(changes) == 2 and set(changes[0]) == {f"model_{i}" for i in range(4)}
    assert 0.0 in changes[0].values()
    budgets = result["budgets"]["runs"]
    assert [models["model_3"]["updates"] for models in budgets.values()][:2] == [2, 1]
    assert list(budgets.values())[2]["model_0"]["staleness"] == {"0": 4, "1": 4, "2": 4}
    assert list(budgets.values())[2]["model_0"]["dropped"] == 4
    assert all(check.held for check in update_table.all_checks(result))
    text = update_table.markdown(result)
    assert "unchanged" in text and "NOT HELD" not in text
    json.dumps(update_table.plain(result))
