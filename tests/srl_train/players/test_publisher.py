"""What publishing weights changes, and for whom."""

import threading
from types import SimpleNamespace

import pytest
import torch

from srl_agents.episode import ModelVersion
from srl_train.loading import InProcessPublisher, weights_digest


def backend():
    made = SimpleNamespace(
        weights_version=0, adapter_versions={}, digests={}, lock=threading.RLock()
    )
    made.identity = lambda adapter: ModelVersion(
        "base",
        made.weights_version if adapter is None else made.adapter_versions[adapter],
        adapter,
        made.digests.get(adapter),
    )
    return made


@pytest.mark.parametrize("adapted", [False, True])
def test_a_learners_weights_are_marked_and_a_pools_are_copied(adapted):
    learner, past = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)
    shared = backend()
    backends = {"model_0": shared, "past": shared if adapted else backend()}
    publisher = InProcessPublisher(
        backends, {"past": past}, frozenset(backends) if adapted else frozenset()
    )
    weights = {name: own.detach() for name, own in learner.named_parameters()}
    before = {name: own.clone() for name, own in weights.items()}

    publisher.publish("model_0", 3, weights)
    assert shared.identity("model_0" if adapted else None) == ModelVersion(
        "base", 3, "model_0" if adapted else None, weights_digest(weights)
    )
    assert all(torch.equal(learner.state_dict()[name], before[name]) for name in before)

    snapshot = {name: own + 1 for name, own in weights.items()}
    publisher.publish("past", "model_0@2", snapshot)
    marked = backends["past"].identity("past" if adapted else None)
    assert (marked.version, marked.digest) == ("model_0@2", weights_digest(snapshot))
    assert all(torch.equal(past.state_dict()[name], snapshot[name]) for name in snapshot)
    publisher.publish("model_0", 4, weights)
    assert shared.identity("model_0" if adapted else None).version == 4
    assert backends["past"].identity("past" if adapted else None).version == "model_0@2"
