"""Training on a Ray cluster with a real server, whose engine is killed once."""

import os
import signal

import psutil
import pytest

from tests.srl_extensions.vllm_real.conftest import PYTHON

pytestmark = pytest.mark.ray
pytest.importorskip("ray")

ROUNDS = 4


def engines():
    """Return the engine processes of all servers that descend from this process."""
    started = psutil.Process().children(recursive=True)
    return {one for one in started if one.is_running() and "EngineCor" in one.name()}


def test_demo_trains_on_ray_with_a_server(tmp_path):
    from srl_train.config.yaml_file import from_tree
    from srl_train.trainer import Trainer

    managed = {"python": os.environ.get("VLLM_PYTHON", str(PYTHON))}
    tree = {
        "environment": {"name": "coop_compete_v0", "options": {"num_agents": 2, "max_cycles": 4}},
        "models": {"count": 2, "adapters": {"rank": 8}},
        "rollout": {"group_size": 4, "groups_per_round": 2},
        "algorithm": {"learning_rate": 5e-3},
        "logging": {"evaluation_episodes": 0},
        "engine": {"name": "ray", "rollout_workers": 2},
        "backend": {"name": "vllm", "managed": managed},
        "rounds": ROUNDS,
    }
    others = engines()  # The engine of the session's server.
    with Trainer(from_tree(tree), tmp_path / "run") as trainer:
        for number in range(ROUNDS):
            if number == 1:
                [engine] = engines() - others
                engine.send_signal(signal.SIGKILL)
            row = trainer.train_round().row
            assert row["environment"]["failed_episodes"] == 0
            for model in row["models"].values():
                assert model["updates"] == number + 1 and model["staleness"]["max"] == 0
                assert model["sampler_divergence_max"] < 1e-4
        left = engines() - others
        assert left
    assert not any(one.is_running() for one in left)
