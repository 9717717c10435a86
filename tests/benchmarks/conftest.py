"""Short measurements of claims."""

import pytest

from benchmarks import claim as claims
from benchmarks.claim import Request


@pytest.fixture(scope="session")
def small(tiny_folder, tmp_path_factory):
    """Make the request of a short measurement: two rounds of two groups of two episodes."""

    def request(name, games=0, seeds=(3,), change=None, **overrides):
        claim = claims.load(name).model_copy(update=change or {})
        settings = {
            "models.base": tiny_folder,
            "rollout.group_size": 2,
            "rollout.groups_per_round": 2,
            "logging.evaluation_episodes": 2,
            "logging.episodes": 0,
            "rounds": 2,
            **{name.replace("__", "."): value for name, value in overrides.items()},
        }
        return Request(claim, seeds, tmp_path_factory.mktemp("runs"), games, settings)

    return request


TWO_AGENTS = {"num_agents": 2, "max_cycles": 2}
