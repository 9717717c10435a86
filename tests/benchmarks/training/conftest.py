"""Measurements of moments."""

import pytest

from benchmarks.training.claim import Request


@pytest.fixture(scope="session")
def small(tiny_folder, tmp_path_factory):
    """Makes the request of a measurement of moments: two rounds of two groups of two."""

    def request(games=0, seeds=(3,), **overrides):
        settings = {
            "models.base": tiny_folder,
            "rollout.group_size": 2,
            "rollout.groups_per_round": 2,
            "logging.evaluation_episodes": 2,
            "logging.episodes": 0,
            "rounds": 2,
            **{name.replace("__", "."): value for name, value in overrides.items()},
        }
        return Request(seeds, tmp_path_factory.mktemp("runs"), games, settings)

    return request


TWO_AGENTS = {"num_agents": 2, "max_cycles": 2}
