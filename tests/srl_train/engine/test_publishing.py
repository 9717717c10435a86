"""Which updates of a model reach what samples for it."""

from types import SimpleNamespace

import pytest

from srl_agents.episode import ModelVersion
from srl_train.config.backend import VLLMBackendConfig
from srl_train.config.learning.updates import AsynchronousConfig
from srl_train.config.run import RunConfig
from srl_train.engine import update


class Publisher:
    """Keeps versions as servers would."""

    def __init__(self):
        self.versions = [0]

    def current(self, model):
        return ModelVersion("served", self.versions[-1], model)

    def publish(self, model, version, tensors):
        self.versions.append(version)

    def roll_back(self, model):
        self.versions.pop()


def run_with(rule, max_staleness=4):
    backend = VLLMBackendConfig(name="vllm", servers=("http://127.0.0.1:1",), publish=rule)
    publisher = Publisher()
    run = SimpleNamespace(
        config=RunConfig(
            backend=backend,
            updates=AsynchronousConfig(max_staleness=max_staleness),
            models={"adapters": {}},
        ),
        versions={"model_0": 0},
        players=SimpleNamespace(publisher=publisher),
    )
    run.engine = SimpleNamespace(
        publish=lambda run, model: publisher.publish(model, run.versions[model], {})
    )
    return run


def updates(run, number):
    """The version that answers after each of `number` updates."""
    answering = []
    for _ in range(number):
        run.versions["model_0"] += 1
        update.publish_update(run, "model_0")
        answering.append(run.players.publisher.versions[-1])
    return answering


@pytest.mark.parametrize("every, answering", [(1, [1, 2, 3, 4, 5, 6]), (3, [0, 0, 3, 3, 3, 6])])
def test_every_so_many_updates_are_published(every, answering):
    assert updates(run_with({"when": "updates", "every": every}), 6) == answering


def test_weights_that_bring_no_gain_are_taken_back(monkeypatch):
    run = run_with({"when": "gain", "min_gain": 0.5})
    earned = {0: 1.0, 1: 1.4, 2: 1.6, 3: 1.0, 4: 2.1}

    def evaluate(run, episodes):
        return {"per_model": {"model_0": earned[run.players.publisher.versions[-1]]}}, []

    monkeypatch.setattr(update, "evaluate", evaluate)
    assert updates(run, 4) == [0, 2, 2, 4]


def test_what_would_be_too_stale_to_train_on_is_published_without_a_gain(monkeypatch):
    run = run_with({"when": "gain"}, max_staleness=2)

    def evaluate(run, episodes):
        return {"per_model": {"model_0": -run.players.publisher.versions[-1]}}, []

    monkeypatch.setattr(update, "evaluate", evaluate)
    assert updates(run, 4) == [0, 0, 3, 3]
    # Games that all failed say nothing, and the weights stay
    monkeypatch.setattr(update, "evaluate", lambda *_: ({"per_model": {"model_0": None}}, []))
    assert updates(run, 1) == [5]
