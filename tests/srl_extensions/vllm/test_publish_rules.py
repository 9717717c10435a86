"""Updates of a model that are published to the servers."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from srl_agents.episode import ModelVersion
from srl_extensions.vllm.publisher import Publication, ServedPublisher


@pytest.mark.parametrize("every, expected", [(1, [1, 2, 3, 4, 5, 6]), (3, [0, 0, 3, 3, 3, 6])])
def test_every_nth_update_is_published(every, expected):
    fleet = SimpleNamespace(on_up=lambda load: None)
    publisher = ServedPublisher(
        {}, fleet, None, folder=Path(), probe=(), dtype="float32", every=every
    )

    def answer(version):
        served = ModelVersion("served", version, "model_0")
        publisher.answering["model_0"] = Publication(served, "served", Path(), None)

    answer(0)
    seen = []
    for version in range(1, 7):
        publisher.publish_update("model_0", version, lambda v=version: answer(v))
        seen.append(publisher.current("model_0").version)
    assert seen == expected
