"""Federated runs of real models: periods, FedProx, server optimizers, bytes."""

import json

import pytest
import torch

from srl_train.build import build_run
from srl_train.metrics import read_metrics
from srl_train.round import train_round
from srl_train.trainer import Trainer
from tests.srl_train.engine.run_state import same, weights

FEDERATED = {"updates__strategy": "federated"}


@pytest.mark.parametrize(
    "settings",
    [
        {"algorithm__name": "grpo", "algorithm__minibatches": 2},
        {"algorithm__name": "ppo"},
        {"algorithm__minibatches": 2, "models__adapters": {"rank": 2}},
    ],
    ids=["grpo", "ppo", "adapters"],
)
def test_every_step_of_a_learner_has_the_proximal_term(settings, short_run):
    """What reaches the optimizers, less what the losses gave, is mu (w - common) to the bit of
    float32, before clipping; the common weights are those after the last mean."""
    mu = 0.5
    run = build_run(short_run(**FEDERATED, **settings, updates__proximal=mu, updates__period=2))
    common, terms = {"now": weights(run)["model_0"]}, []
    for learner in run.learners.values():
        watch(learner, common, mu, terms)
    for number in range(4):
        train_round(run, number)
        if number == 1:
            assert same(*weights(run).values())
            common["now"] = weights(run)["model_0"]
    assert len(terms) >= 2 * 4
    assert sum(term > 0 for term in terms) >= len(terms) // 2, "nothing was held back"


def watch(learner, common, mu, terms):
    compute, apply = learner.compute_gradients, learner.apply_gradients
    computed = {}

    def computing():
        found = compute()
        computed.clear()
        computed.update({n: g.clone() for n, g in (found or {}).items()})
        return found

    def applying(gradients):
        if gradients is not None:
            own = learner.weights()
            for name, applied in gradients.items():
                away = own[name].double() - common["now"][name].double()
                expected = computed[name].double() + mu * away
                torch.testing.assert_close(applied.double(), expected, rtol=1e-5, atol=1e-7)
                terms.append(float((mu * away).norm()))
        apply(gradients)

    learner.compute_gradients, learner.apply_gradients = computing, applying


def test_a_model_that_learned_nothing_takes_the_mean_and_is_published(short_run):
    run = build_run(short_run(**FEDERATED))
    take = run.buffers["model_1"].take
    run.buffers["model_1"].take = lambda version, number: take(version, number) and None
    row = train_round(run, 0).row
    assert same(*weights(run).values())
    assert run.versions == {"model_0": 1, "model_1": 1}
    assert row["models"]["model_1"]["updated"] and row["models"]["model_1"]["samples"] == 0


def test_a_period_of_two_sends_half_of_the_bytes_of_a_period_of_one(short_run, tmp_path):
    told = {}
    for period in (1, 2):
        config = short_run(**FEDERATED, updates__period=period, rounds=4)
        trainer = Trainer(config, tmp_path / str(period))
        trainer.fit()
        folder = tmp_path / str(period)
        rows = [row["communicated_bytes"] for row in read_metrics(folder / "metrics.jsonl")]
        size = sum(t.numel() * t.element_size() for t in weights(trainer.run)["model_0"].values())
        assert rows == ([4 * size] * 4 if period == 1 else [0, 4 * size] * 2)
        told[period] = json.loads((folder / "summary.json").read_text())["communicated_bytes"]
        assert told[period] == sum(rows)
    assert told[1] == 2 * told[2]
