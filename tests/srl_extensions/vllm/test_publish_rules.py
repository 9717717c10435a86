"""Updates of a model that are published to the servers."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from srl_agents.episode import ModelVersion
from srl_extensions.vllm.publisher import ServedPublisher


@pytest.mark.parametrize("every, expected", [(1, [1, 2, 3, 4, 5, 6]), (3, [0, 0, 3, 3, 3, 6])])
def test_every_nth_update_is_published(every, expected):
    answering = [0]
    held = SimpleNamespace(
        current=lambda name: SimpleNamespace(version=ModelVersion("served", answering[-1], name))
    )
    publisher = ServedPublisher(held, None, folder=Path(), adapters=True, every=every)
    seen = []
    for version in range(1, 7):
        publisher.publish_update("model_0", version, lambda v=version: answering.append(v))
        seen.append(answering[-1])
    assert seen == expected
