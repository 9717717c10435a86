"""Stub model servers on real Ray clusters of this machine: deaths, and no processes left."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from srl_train.build import build_run
from srl_train.config import yaml_file
from srl_train.round import train_round
from tests.servers import vllm_program
from tests.servers.vllm_program import interpreter

pytestmark = pytest.mark.ray
ray = pytest.importorskip("ray")

STUB = Path(vllm_program.__file__).with_name("stub_program.py")
ROUNDS = 4
GONE_WITHIN = 30.0
"""Seconds after a kill of the driver in which its servers end."""
DRIVER = """
import json, sys
from pathlib import Path
from srl_train.config import yaml_file
from srl_train.build import build_run
from srl_train.round import train_round

run = build_run(yaml_file.from_tree(json.loads(sys.argv[1])), server_logs=Path(sys.argv[2]))
train_round(run, 0)
print("played", flush=True)
for number in range(1, 1000):
    train_round(run, number)
"""


@pytest.fixture
def tree(tmp_path):
    """Configuration of a run of two adapters on two stub servers."""
    return {
        "environment": {"name": "coop_compete_v0", "options": {"max_cycles": 2}},
        "models": {"count": 2, "adapters": {"rank": 4}},
        "rollout": {"group_size": 4, "groups_per_round": 2},
        "algorithm": {"learning_rate": 0.01},
        "logging": {"evaluation_episodes": 0},
        "engine": {"name": "ray", "rollout_workers": 2, "placement": "SPREAD"},
        "backend": {
            "name": "vllm",
            "managed": {"python": interpreter(tmp_path, STUB), "replicas": 2},
        },
        "rounds": ROUNDS,
    }


@pytest.fixture
def two_nodes():
    """Address of a cluster of two nodes on this machine, which are too small for all actors."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 4})
    cluster.add_node(num_cpus=4)
    yield cluster.address
    cluster.shutdown()


def processes(logs):
    """Return the launchers and servers that run in the folder of their logs."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.cwd() == str(logs) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:  # The process has ended, or belongs to another user.
            continue
    return found


def test_run_survives_deaths_and_leaves_no_process(tree, two_nodes, tmp_path):
    tree["engine"]["address"] = two_nodes
    logs = tmp_path / "server-logs"
    run = build_run(yaml_file.from_tree(tree), server_logs=logs)
    try:
        servers = [one for one in processes(logs) if "launcher.py" not in " ".join(one.cmdline())]
        assert len(servers) == 2
        for number in range(ROUNDS):
            if number == 1:
                servers[0].kill()
            if number == 3:
                players = run.engine._actors
                ray.kill(players[0]._handle, no_restart=False)
            result = train_round(run, number)
            run.next_round = number + 1
            assert result.row["environment"]["failed_episodes"] == 0
            for row in result.row["models"].values():
                assert (row["samples"], row["staleness"]["max"]) == (16, 0)
                assert row["sampler_divergence_max"] < 1e-4
        assert run.versions == {"model_0": ROUNDS, "model_1": ROUNDS}
    finally:
        run.players.close()
    assert not processes(logs)


def test_killed_driver_leaves_no_process(tree, tmp_path):
    logs = tmp_path / "server-logs"
    words = [sys.executable, "-c", DRIVER, json.dumps(tree), str(logs)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as driver:
        try:
            assert driver.stdout.readline() == "played\n"
            there = processes(logs)
        finally:
            driver.send_signal(signal.SIGKILL)
    assert len(there) == 4, "servers and their launchers"
    end = time.monotonic() + GONE_WITHIN
    while processes(logs) and time.monotonic() < end:
        time.sleep(0.2)
    assert not processes(logs)
