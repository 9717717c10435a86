"""Runs on real Ray clusters of this machine equal the local engine, also after kills."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from srl_train.build import build_run
from srl_train.config import yaml_file
from srl_train.config.engine import RayEngineConfig
from srl_train.errors import ConfigError, TrainingError
from srl_train.round import train_round
from tests.srl_train.run_state import everything, same

pytestmark = pytest.mark.ray
pytest.importorskip("ray")

DEMO = Path(yaml_file.__file__).parents[2] / "examples" / "configs" / "demo.yaml"
ROUNDS = 10


def demo(**engine):
    config = yaml_file.load(DEMO)
    return config.replaced(engine=RayEngineConfig(**engine)) if engine else config


def trained(config, before_round=lambda number: None):
    """Return the complete state of a run after ROUNDS rounds, and end its actors."""
    run = build_run(config)
    try:
        for number in range(ROUNDS):
            before_round(number)
            train_round(run, number)
            run.next_round = number + 1
        return everything(run)
    finally:
        run.players.close()


def actors():
    """Return the processes of this run's actors, and of no other run on the machine."""
    return [
        process
        for process in psutil.Process().children(recursive=True)
        if process.name().startswith("ray::Host")
    ]


def pids():
    return {actor.pid for actor in actors()}


def kill_learner(run, model):
    os.kill(run.learners[model].apply(lambda *_: os.getpid()), signal.SIGKILL)


@pytest.fixture(scope="module")
def undisturbed():
    """State of the demo with the local engine."""
    return trained(demo())


@pytest.fixture
def two_nodes():
    """Address of a cluster of two nodes on this machine, which are too small for all actors."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 3})
    cluster.add_node(num_cpus=3)
    yield cluster.address
    cluster.shutdown()


def test_demo_on_two_nodes_equals_the_local_engine(undisturbed, two_nodes):
    nodes = set()
    found = trained(
        demo(address=two_nodes, placement="SPREAD"),
        lambda number: nodes.update(actor.ppid() for actor in actors()),
    )
    assert len(nodes) == 2, "each node's actors have their own parent"
    assert same(found, undisturbed)


def test_run_with_ten_kills_equals_an_undisturbed_run(undisturbed):
    rng, killed = np.random.default_rng(0), []

    def kill():
        victim = rng.choice(np.array(actors(), object))
        victim.kill()  # SIGKILL
        killed.append(victim.pid)

    def kill_during(number):
        threading.Timer(rng.uniform(0, 2), kill).start()

    found = trained(demo(rollout_workers=1), kill_during)
    assert len(killed) >= 9  # The run may end before the last timer.
    assert found["versions"] == undisturbed["versions"]
    assert same(found, undisturbed)


def test_run_with_a_lost_node_equals_an_undisturbed_run(short_run):
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    lost = cluster.add_node(num_cpus=2)
    config = short_run(rounds=4, updates__strategy="federated")
    local, engine = build_run(config), RayEngineConfig(address=cluster.address)
    run = build_run(config.replaced(engine=engine))
    cluster.add_node(num_cpus=2)
    before = pids()
    losing = threading.Timer(1, cluster.remove_node, [lost], {"allow_graceful": False})
    try:
        for number in range(4):
            if number == 1:
                losing.start()  # The node is lost during the rounds.
            if number == 3:
                losing.join()
            for one in (local, run):
                train_round(one, number)
                one.next_round = number + 1
        assert len(before - pids()) == 2, "a player and a learner were on the node"
        assert same(everything(run), everything(local))
    finally:
        run.players.close()
        cluster.shutdown()


class Mortal:
    """Object of an actor."""

    def fail(self):
        raise ValueError("raised in an actor")

    def die(self):
        os._exit(1)

    def pid(self):
        return os.getpid()


def test_an_actor_that_dies_three_times_in_one_call_ends_the_run():
    from srl_extensions.cluster.actors import Cluster

    cluster = Cluster(RayEngineConfig(), 1)
    try:
        actor = cluster.actor("the learner", 1, Mortal)
        with pytest.raises(ValueError, match="raised in an actor"):
            actor.call("fail")
        before = actor.call("pid")
        with pytest.raises(TrainingError, match="the learner died 3 times"):
            actor.call("die")
        assert actor.call("pid") != before
        actor.stop()
        with pytest.raises(TrainingError, match="ended with the run"):
            actor.call("pid")
    finally:
        cluster.close()


def test_sigterm_ends_a_run_and_its_cluster(tmp_path):
    out, messages = tmp_path / "run", tmp_path / "messages"
    words = ["--set", "engine={name: ray}", "--set", "checkpoints.every=1", "--quiet"]
    words += ["--set", "logging.evaluation_episodes=0", "--set", "rounds=1000"]
    with messages.open("w") as stderr:
        command = [sys.executable, "-m", "srl_train.cli", "train", DEMO, "--out", out, *words]
        run = subprocess.Popen(command, stderr=stderr)
    try:
        while not list(out.glob("checkpoints/round_*")):
            assert run.poll() is None, messages.read_text()
            time.sleep(0.5)
        cluster = psutil.Process(run.pid).children(recursive=True)
        run.terminate()
        assert run.wait() == 143
    finally:
        run.kill()
    last = messages.read_text().splitlines()[-1]
    assert last == f"srl: terminated; to resume: srl train --resume --out {out}"
    assert cluster and psutil.wait_procs(cluster, 60)[1] == []


def test_a_missing_cluster_and_missing_room_are_refused(monkeypatch):
    monkeypatch.setattr("srl_extensions.cluster.actors.PLACED_WITHIN", 2.0)
    with pytest.raises(ConfigError, match=r"the cluster has .*'GPU': 0.0"):
        build_run(demo(rollout_worker_gpus=1000.0))
    for address in ("127.0.0.1:1", "ray://127.0.0.1:1", "nowhere"):
        with pytest.raises(ConfigError, match=f"engine.address: got '{address}'"):
            build_run(demo(address=address))
    with pytest.raises(ConfigError, match=r"'auto' .*`ray start --head` starts a cluster here"):
        build_run(demo(address="auto"))
