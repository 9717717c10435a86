"""Every update strategy does to real models what it says."""

import itertools
import math

import pytest
import torch

from srl_train.assembly import assemble
from srl_train.rounds import run_round
from tests.srl_train.run_state import optimizers, same, weights


def test_synchronized_models_stay_equal_to_the_bit(short_run):
    config = short_run(updates__strategy="synchronized", grpo__minibatches=2, models__count=2)
    run = assemble(config)
    start = weights(run)["model_0"]
    for number in range(3):
        run_round(run, number)
        now = weights(run)
        assert same(now["model_0"], now["model_1"])
        assert not same(now["model_0"], start)
        start = now["model_0"]
    first, second = optimizers(run).values()
    assert same(first, second)


def test_groups_are_synchronized_apart(short_run):
    run = assemble(
        short_run(
            environment__options={"num_agents": 3, "max_cycles": 2},
            models__count=3,
            updates__strategy="synchronized",
            updates__groups=[["model_0", "model_2"]],
        )
    )
    run_round(run, 0)
    now = weights(run)
    assert same(now["model_0"], now["model_2"])
    assert not same(now["model_0"], now["model_1"])


def test_the_unselected_are_left_to_the_bit_and_wait_no_longer_than_patience(short_run):
    run = assemble(short_run(updates__strategy="selective", updates__patience=1))
    seen = []
    for number in range(4):
        before, moments = weights(run), optimizers(run)
        row = run_round(run, number).row
        after, later = weights(run), optimizers(run)
        scores = {m: one["raw_return"] for m, one in row["models"].items()}
        selected = {m for m, one in row["models"].items() if one["updated"]}
        seen.append(selected)
        assert max(scores, key=scores.get) in selected
        for model in run.learners:
            assert same(before[model], after[model]) is (model not in selected)
            assert same(moments[model], later[model]) is (model not in selected)
    assert all(a | b == {"model_0", "model_1"} for a, b in itertools.pairwise(seen))
    assert min(map(len, seen)) == 1, "nobody was ever left out"


@pytest.mark.parametrize("mix", [1.0, 0.25])
def test_federated_weights_are_the_weighted_mean_by_hand(mix, short_run):
    run = assemble(
        short_run(
            updates__strategy="federated",
            updates__federation_temperature=0.3,
            updates__federation_mix=mix,
        )
    )
    learned = {}
    merge = run.strategy.on_weights

    def recorded(before, after, state, context):
        learned.update(weights(run))
        return merge(before, after, state, context)

    run.strategy = run.strategy._replace(on_weights=recorded)
    for number in range(2):
        row = run_round(run, number).row
        assert not same(learned["model_0"], learned["model_1"])
        powers = {m: math.exp(one["raw_return"] / 0.3) for m, one in row["models"].items()}
        shares = {m: power / sum(powers.values()) for m, power in powers.items()}
        assert abs(shares["model_0"] - 0.5) > 1e-6
        for model, after in weights(run).items():
            for name, found in after.items():
                mean = sum(shares[m] * learned[m][name].double() for m in shares)
                expected = mix * mean + (1 - mix) * learned[model][name].double()
                torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-7)
        assert same(*weights(run).values()) is (mix == 1.0)


def updates_per_round(run, number_of_rounds):
    versions, counted = dict(run.versions), []
    for number in range(number_of_rounds):
        run_round(run, number)
        counted.append({m: run.versions[m] - versions[m] for m in versions})
        versions = dict(run.versions)
    return counted


def test_a_ten_times_slower_model_delays_nobody(short_run):
    small = {"rollout__group_size": 2}
    alone = updates_per_round(assemble(short_run(**small)), 10)
    run = assemble(short_run(**small, updates__sample_budget={"model_1": 20}))
    start = weights(run)["model_1"]
    both = updates_per_round(run, 9)
    assert same(weights(run)["model_1"], start)
    row = run_round(run, 9).row
    both.append({m: run.versions[m] - sum(c[m] for c in both) for m in run.versions})
    assert [c["model_0"] for c in both] == [c["model_0"] for c in alone] == [1] * 10
    assert [c["model_1"] for c in both] == [0] * 9 + [1]
    assert row["models"]["model_1"]["samples"] == 20
    assert row["models"]["model_1"]["staleness"] == {"mean": 0.0, "max": 0}
    assert row["models"]["model_1"]["age_rounds"] == {"mean": 4.5, "max": 9}


@pytest.mark.parametrize("bound, updates", [(4, 3), (2, 3), (1, 2), (0, 1)])
def test_staleness_is_recorded_and_bounded(bound, updates, short_run):
    run = assemble(
        short_run(
            rollout__group_size=2,
            rollout__groups_per_round=3,
            updates__sample_budget={"model_0": 2},
            updates__max_staleness=bound,
        )
    )
    for number in range(2):
        row = run_round(run, number).row["models"]["model_0"]
        assert row["updates"] == updates * (number + 1)
        assert row["staleness"] == {"mean": (updates - 1) / 2, "max": updates - 1}
        assert row["staleness"]["max"] <= bound
        assert row["samples"] == 2 * updates
        assert row["samples_dropped_stale"] == (6 - 2 * updates) * (number + 1)


def test_stale_samples_are_trained_on_as_such(short_run):
    run = assemble(
        short_run(
            rollout__group_size=2,
            rollout__groups_per_round=2,
            updates__sample_budget={"model_0": 2},
        )
    )
    learner, seen = run.learners["model_0"], []
    begin = learner.begin_update

    def watched(samples, seed, version):
        steps = begin(samples, seed, version)
        seen.append(([version - s.version for s in samples], learner._trainer.from_older_weights))
        return steps

    learner.begin_update = watched
    run_round(run, 0)
    assert seen == [([0, 0], False), ([1, 1], True)]


