"""Update strategies of real models: means, selection, budgets, staleness and FedProx."""

import itertools
import json
import math

import pytest
import torch

from srl_train.build import build_run
from srl_train.errors import TrainingError
from srl_train.metrics import read_metrics
from srl_train.round import train_round
from srl_train.trainer import Trainer
from srl_train.updates import federated, synchronized
from tests.srl_train.run_state import optimizers, same, weights


def test_synchronized_models_stay_equal_to_the_bit(short_run):
    config = short_run(updates__strategy="synchronized", algorithm__minibatches=2, models__count=2)
    run = build_run(config)
    start = weights(run)["model_0"]
    for number in range(2):
        train_round(run, number)
        now = weights(run)
        assert same(now["model_0"], now["model_1"])
        assert not same(now["model_0"], start)
        start = now["model_0"]
    first, second = optimizers(run).values()
    assert same(first, second)


def test_unselected_models_are_unchanged_for_at_most_patience_rounds(short_run):
    run = build_run(short_run(updates__strategy="selective", updates__patience=1))
    seen = []
    for number in range(4):
        before, moments = weights(run), optimizers(run)
        row = train_round(run, number).row
        after, later = weights(run), optimizers(run)
        selected = {m for m, one in row["models"].items() if one["updated"]}
        seen.append(selected)
        for model in run.learners:
            assert same(before[model], after[model]) is (model not in selected)
            assert same(moments[model], later[model]) is (model not in selected)
    assert all(a | b == {"model_0", "model_1"} for a, b in itertools.pairwise(seen))
    assert min(map(len, seen)) == 1, "nobody was ever left out"


def test_federated_weights_are_the_mean_by_hand(short_run):
    mix = 0.25
    run = build_run(short_run(updates__strategy="federated", updates__mix=mix))
    learned, samples = {}, {}
    merge = run.strategy.on_weights

    def recorded(before, after, state, context):
        learned.update(weights(run))
        samples.update(context.samples)
        return merge(before, after, state, context)

    run.strategy = run.strategy._replace(on_weights=recorded)
    for number in range(2):
        train_round(run, number)
        assert not same(learned["model_0"], learned["model_1"])
        assert samples == {"model_0": 4, "model_1": 4}
        for model, after in weights(run).items():
            for name, found in after.items():
                mean = sum(learned[m][name].double() for m in learned) / 2
                expected = mix * mean + (1 - mix) * learned[model][name].double()
                torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-7)


def updates_per_round(run, number_of_rounds):
    versions, counted = dict(run.versions), []
    for number in range(number_of_rounds):
        train_round(run, number)
        counted.append({m: run.versions[m] - versions[m] for m in versions})
        versions = dict(run.versions)
    return counted


def test_a_slow_model_does_not_delay_other_models(short_run):
    run = build_run(short_run(rollout__group_size=2, updates__sample_budget={"model_1": 8}))
    start = weights(run)["model_1"]
    both = updates_per_round(run, 3)
    assert same(weights(run)["model_1"], start)
    row = train_round(run, 3).row
    both.append({m: run.versions[m] - sum(c[m] for c in both) for m in run.versions})
    assert [c["model_0"] for c in both] == [1] * 4
    assert [c["model_1"] for c in both] == [0] * 3 + [1]
    assert row["models"]["model_1"]["samples"] == 8
    assert row["models"]["model_1"]["staleness"] == {"mean": 0.0, "max": 0}
    assert row["models"]["model_1"]["age_rounds"] == {"mean": 1.5, "max": 3}


@pytest.mark.parametrize("bound, updates", [(4, 3), (1, 2)])
def test_staleness_is_recorded_and_bounded(bound, updates, short_run):
    run = build_run(
        short_run(
            rollout__group_size=2,
            rollout__groups_per_round=3,
            updates__sample_budget={"model_0": 2},
            updates__max_staleness=bound,
        )
    )
    for number in range(2):
        row = train_round(run, number).row["models"]["model_0"]
        assert row["updates"] == updates * (number + 1)
        assert row["staleness"] == {"mean": (updates - 1) / 2, "max": updates - 1}
        assert row["staleness"]["max"] <= bound
        assert row["samples"] == 2 * updates
        assert row["samples_dropped_stale"] == (6 - 2 * updates) * (number + 1)


def spoil(run, model):
    """Put NaN into one place of each gradient of the model."""
    learner = run.learners[model]
    computed = learner.compute_gradients

    def spoilt():
        gradients = computed()
        next(iter(gradients.values())).view(-1)[0] = math.nan
        return gradients

    learner.compute_gradients = spoilt


@pytest.mark.parametrize("name", ["asynchronous", "synchronized and federated"])
def test_a_gradient_that_is_not_finite_is_skipped_and_counted(name, short_run):
    strategy = None
    if name != "asynchronous":
        strategy = federated()._replace(on_gradients=synchronized().on_gradients)
    run = build_run(short_run(algorithm__minibatches=2), strategy=strategy)
    spoil(run, "model_1")
    start = weights(run)
    with pytest.warns(RuntimeWarning, match="model_1 is left out of step . of round 0: .* NaN"):
        row = train_round(run, 0).row["models"]
    assert [row[m]["steps_left_out"] for m in ("model_0", "model_1")] == [0, 2]
    after = weights(run)
    assert all(t.isfinite().all() for own in after.values() for t in own.values())
    assert not same(after["model_0"], start["model_0"])
    assert same(after["model_1"], start["model_1"]) is (name == "asynchronous")


def test_weights_that_are_not_finite_end_the_run_with_their_models_name(short_run):
    run = build_run(short_run())
    learner = run.learners["model_1"]
    applied = learner.apply_gradients

    def broken(gradients):
        applied(gradients)
        next(iter(learner.weights().values())).view(-1)[0] = math.nan

    learner.apply_gradients = broken
    with pytest.raises(TrainingError, match="the weights of model_1 are not finite after the upd"):
        train_round(run, 0)
    assert all(t.isfinite().all() for t in weights(run)["model_0"].values())


def test_bytes_are_recorded_in_the_rounds_that_send_them(short_run, tmp_path):
    trainer = Trainer(short_run(updates__strategy="federated", updates__period=2), tmp_path)
    trainer.fit()
    rows = [row["communicated_bytes"] for row in read_metrics(tmp_path / "metrics.jsonl")]
    size = sum(t.numel() * t.element_size() for t in weights(trainer.run)["model_0"].values())
    assert rows == [0, 4 * size]
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["communicated_bytes"] == 4 * size
