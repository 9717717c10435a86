"""One embedded model, which reads and answers every game, for all tests here."""

import pytest

from srl_envs import coop_compete_v0


@pytest.fixture(scope="session")
def tiny_folder(embedded_models):
    from srl_agents.llm import tiny

    return str(
        tiny.folder(lambda: coop_compete_v0.parallel_env(variant="pair", max_cycles=3))
    )


@pytest.fixture
def small_setting(tiny_folder):
    """The settings of a run of moments, by dotted name."""
    return {
        "environment.name": "coop_compete_v0",
        "environment.options": {"num_agents": 4, "max_cycles": 2},
        "models.base": tiny_folder,
        "models.sampling.max_new_tokens": 4,
        "models.count": 4,
        "rollout.group_size": 2,
        "rollout.groups_per_round": 1,
        "logging.evaluation_episodes": 2,
        "logging.episodes": 0,
        "checkpoints.every": 0,
        "rounds": 2,
    }


@pytest.fixture
def empty_config(tmp_path):
    """A configuration file that leaves everything to the settings on top of it."""
    path = tmp_path / "empty.yaml"
    path.write_text("{}\n")
    return path
