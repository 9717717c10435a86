"""Training with a real server whose engine is killed at random moments."""

import os
import random
import signal
import threading
import time

import pytest

from tests.srl_extensions.vllm_real.conftest import PYTHON
from tests.srl_extensions.vllm_real.process_groups import group

KILLS = 10
ROUNDS = 30


@pytest.mark.slow
def test_run_completes_although_its_engine_is_killed_ten_times(tmp_path, monkeypatch):
    monkeypatch.setattr("srl_extensions.vllm.fleet.MAX_RESTARTS", 20)
    from srl_train.config.yaml_file import from_tree
    from srl_train.trainer import Trainer

    python = os.environ.get("VLLM_PYTHON", str(PYTHON))
    managed = {"python": python}
    tree = {
        "environment": {"name": "coop_compete_v0", "options": {"num_agents": 4, "max_cycles": 8}},
        "models": {"count": 4, "adapters": {"rank": 8}},
        "rollout": {"group_size": 8, "groups_per_round": 1},
        "algorithm": {"learning_rate": 5e-3},
        "logging": {"evaluation_episodes": 0},
        "backend": {"name": "vllm", "managed": managed},
        "rounds": ROUNDS,
    }
    over, killed = threading.Event(), []
    with Trainer(from_tree(tree), tmp_path / "run") as trainer:
        run = trainer.run
        fleet = run.players.publisher.fleet
        [member] = fleet.members
        rng = random.Random(0)

        def kill_engines():
            while len(killed) < KILLS and not over.is_set():
                time.sleep(rng.uniform(0.0, 3.0))
                engines = [pid for pid, name in group(member.server.process.pid).items()
                           if "EngineCor" in name] if fleet.clients("base") else []  # fmt: skip
                for engine in engines:
                    os.kill(engine, signal.SIGKILL)
                    killed.append(time.monotonic())
                    time.sleep(1.0)  # The server notices the death.

        killer = threading.Thread(target=kill_engines)
        killer.start()
        try:
            rows = [trainer.train_round().row for _ in range(ROUNDS)]
        finally:
            over.set()
            killer.join()
    assert len(killed) == KILLS, f"only {len(killed)} kills in {ROUNDS} rounds: play more rounds"
    for number, row in enumerate(rows):
        assert row["environment"]["failed_episodes"] == 0
        for model in row["models"].values():
            assert (model["samples"], model["updates"]) == (8, number + 1)
            assert model["staleness"]["max"] == 0
            assert model["sampler_divergence_max"] < 1e-4
