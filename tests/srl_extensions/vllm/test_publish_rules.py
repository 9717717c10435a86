"""Updates of a model that are published to the servers."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from srl_agents.episode import ModelVersion
from srl_extensions.vllm.config import PublishGainConfig, PublishUpdatesConfig
from srl_extensions.vllm.publisher import ServedPublisher


class RecordingPublisher(ServedPublisher):
    """Publisher whose servers are a list of versions."""

    def __init__(self, rule, max_staleness):
        self.versions = [0]
        super().__init__(
            SimpleNamespace(), None, folder=Path(), adapters=True, rule=rule,
            max_staleness=max_staleness,
        )  # fmt: skip

    def current(self, name):
        return ModelVersion("served", self.versions[-1], name)

    def roll_back(self, name):
        self.versions.pop()


def answering(rule, number, rewards=None, max_staleness=4):
    """Return the version that answers after each of `number` updates."""
    publisher, seen = RecordingPublisher(rule, max_staleness), []
    for version in range(1, number + 1):
        publisher.publish_update(
            "model_0",
            version,
            lambda version=version: publisher.versions.append(version),
            lambda episodes: rewards(publisher.versions[-1]),
        )
        seen.append(publisher.versions[-1])
    return seen


@pytest.mark.parametrize("every, expected", [(1, [1, 2, 3, 4, 5, 6]), (3, [0, 0, 3, 3, 3, 6])])
def test_every_nth_update_is_published(every, expected):
    assert answering(PublishUpdatesConfig(every=every), 6) == expected


def test_an_update_without_a_gain_is_rolled_back():
    rewards = {0: 1.0, 1: 1.4, 2: 1.6, 3: 1.0, 4: 2.1}
    assert answering(PublishGainConfig(min_gain=0.5), 4, rewards.__getitem__) == [0, 2, 2, 4]


def test_weights_too_stale_to_train_on_are_replaced_without_a_gain():
    worse = answering(PublishGainConfig(), 4, lambda version: -version, max_staleness=2)
    assert worse == [0, 0, 3, 3]


def test_an_evaluation_without_a_result_keeps_the_update():
    assert answering(PublishGainConfig(), 2, lambda version: None) == [1, 2]
