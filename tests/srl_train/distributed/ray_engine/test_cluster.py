"""Real clusters on this machine: equal to the bit on one node and two, and through ten kills."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch

from srl_envs import registry
from srl_train.build import build_run
from srl_train.config import yaml_file
from srl_train.config.engine import RayEngineConfig
from srl_train.config.learning.offline import DpoConfig, SftConfig
from srl_train.distributed.ray_engine.standing import WorkerLost
from srl_train.errors import ConfigError
from srl_train.round import train_round
from srl_train.trainer import Trainer
from tests.srl_train.run_state import everything, same, without_times

pytestmark = pytest.mark.ray
pytest.importorskip("ray")

DEMO = Path(yaml_file.__file__).parents[2] / "examples" / "configs" / "demo.yaml"
ROUNDS = 10


def demo(**engine):
    config = yaml_file.load(DEMO)
    return config.replaced(engine=RayEngineConfig(**engine)) if engine else config


def trained(config, watch=lambda: None):
    """The run's whole state after ROUNDS rounds; its actors are ended."""
    run = build_run(config)
    watch()
    try:
        for number in range(ROUNDS):
            train_round(run, number)
            run.next_round = number + 1
        return everything(run)
    finally:
        run.players.close()


def actors():
    """The processes of this run's actors, and of no other's on the machine."""
    return [
        process
        for process in psutil.Process().children(recursive=True)
        if process.name().startswith("ray::Host")
    ]


@pytest.fixture(scope="module")
def undisturbed():
    """What the local engine comes to."""
    return trained(demo())


@pytest.fixture
def two_nodes():
    """The address of a cluster of two nodes on this machine, neither of which holds all actors."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 3})
    cluster.add_node(num_cpus=3)
    yield cluster.address
    cluster.shutdown()


def test_the_demo_is_equal_to_the_bit(undisturbed):
    assert same(trained(demo(players=1)), undisturbed)


def test_so_it_is_on_two_nodes(undisturbed, two_nodes):
    nodes = set()
    found = trained(
        demo(address=two_nodes, placement="SPREAD"),
        watch=lambda: nodes.update(actor.ppid() for actor in actors()),
    )
    assert len(nodes) == 2, "each node's actors have a parent of their own"
    assert same(found, undisturbed)


def test_ten_kills_change_nothing(undisturbed):
    rng, killed = np.random.default_rng(0), []
    over = threading.Event()

    def kill_now_and_then():
        while len(killed) < 10 and not over.wait(rng.uniform(0.5, 2)):
            up = [one for one in actors() if one.name() != "ray::Host.make"]
            if len(up) == 5:  # successors take their time to load, and are not killed over it
                for place in rng.permutation(5)[: rng.integers(1, 3)]:
                    up[place].kill()  # SIGKILL
                    killed.append(up[place].pid)

    killer = threading.Thread(target=kill_now_and_then)
    try:
        found = trained(demo(players=1), watch=killer.start)
    finally:
        over.set()
        killer.join()
    assert len(killed) >= 10
    assert found["versions"] == undisturbed["versions"]
    assert same(found, undisturbed)


def test_stages_are_trained_in_learners_of_which_one_is_killed(tmp_path):
    stages = {"sft": SftConfig(episodes=8, epochs=2), "dpo": DpoConfig(episodes=16, epochs=2)}
    config = demo().replaced(**stages, rounds=1, logging={"evaluation_episodes": 0})
    killed = []

    class Killer:
        def write(self, row):
            if row.get("stage") and row["pass"] == 0:  # after the first pass of each
                [*_, last] = actors()
                last.kill()
                killed.append(last.pid)

        def close(self):
            pass

    def fitted(config, *sinks):
        with Trainer(config, tmp_path / config.engine.name, sinks=sinks) as trainer:
            assert trainer.fit()["training_completed"]
            return everything(trainer.run), without_times(trainer.run.stages.reports)

    found = fitted(config.replaced(engine=RayEngineConfig()), Killer())
    assert len(killed) == 2
    assert same(found, fitted(config))


@pytest.mark.parametrize("parallel, strategy", [("ddp", "federated"), ("fsdp", "synchronized")])
def test_learners_of_two_processes_come_to_the_weights_of_one(short_run, parallel, strategy):
    config = short_run(updates__strategy=strategy, rounds=3, algorithm__trl={"adam_epsilon": 1e-4})
    engine = RayEngineConfig(learner_processes=2)
    local, run = build_run(config), build_run(config.replaced(engine=engine, parallel=parallel))
    try:
        assert (
            str(run.learners["model_0"].parallelism())
            == f"2 processes, {parallel} over gloo on cpu"
        )
        assert len(actors()) == 5
        for number in range(3):
            for one in (local, run):
                train_round(one, number)
                one.next_round = number + 1
            if number == 0:
                actors()[-1].kill()  # one of two processes
        assert (
            run.learners["model_0"].model.worker.deaths
            + run.learners["model_1"].model.worker.deaths
            == 1
        )
        assert run.versions == local.versions
        for name, learner in run.learners.items():
            for parameter, own in local.learners[name].weights().items():
                torch.testing.assert_close(learner.weights()[parameter], own, rtol=0, atol=1e-5)
    finally:
        run.players.close()


def test_a_node_that_is_lost_changes_nothing(short_run):
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    lost = cluster.add_node(num_cpus=2)
    config = short_run(rounds=4, updates__strategy="federated")
    local, engine = build_run(config), RayEngineConfig(address=cluster.address)
    run = build_run(config.replaced(engine=engine))
    cluster.add_node(num_cpus=2)
    losing = threading.Timer(1, cluster.remove_node, [lost], {"allow_graceful": False})
    try:
        for number in range(4):
            if number == 1:
                losing.start()  # while rounds go
            if number == 3:
                losing.join()
            for one in (local, run):
                train_round(one, number)
                one.next_round = number + 1
        assert run.engine.players[0].worker.deaths == 1
        assert sum(one.model.worker.deaths for one in run.learners.values()) == 1
        assert same(everything(run), everything(local))
    finally:
        run.players.close()
        cluster.shutdown()


class Together:
    """What the actors of a group hold."""

    def __init__(self, rank):
        self.rank = rank

    def index(self):
        return self.rank.index

    def wrong(self):
        raise ValueError(f"told by {self.rank.count}")

    def cut_off(self):
        if self.rank.index == 0:
            raise RuntimeError("connection closed by peer")
        time.sleep(1)
        os._exit(1)


def test_what_is_raised_because_another_died_is_a_death():
    from srl_train.distributed.ray_engine.cluster import Cluster

    cluster = Cluster(RayEngineConfig(learner_processes=2), 1)
    try:
        actor = cluster.actor(range(1, 3), Together)
        with pytest.raises(ValueError, match="told by 2"):
            actor.call("wrong")
        assert actor.call("index") == 0
        with pytest.raises(WorkerLost):
            actor.call("cut_off")
    finally:
        cluster.close()
    with pytest.raises(WorkerLost, match="the cluster was left"):
        cluster.actor(range(1, 3), Together)


def test_sigterm_ends_a_run_and_its_cluster_in_one_line(tmp_path):
    out, told = tmp_path / "run", tmp_path / "told"
    words = ["--set", "engine={name: ray}", "--set", "checkpoints.every=1", "--quiet"]
    words += ["--set", "logging.evaluation_episodes=0", "--set", "rounds=1000"]
    with told.open("w") as stderr:
        command = [sys.executable, "-m", "srl_train.cli", "train", DEMO, "--out", out, *words]
        run = subprocess.Popen(command, stderr=stderr)
    try:
        while not list(out.glob("checkpoints/round_*")):
            assert run.poll() is None, told.read_text()
            time.sleep(0.5)
        cluster = psutil.Process(run.pid).children(recursive=True)
        run.terminate()
        assert run.wait() == 143
    finally:
        run.kill()
    last = told.read_text().splitlines()[-1]
    assert last == f"srl: terminated; to go on: srl train --resume --out {out}"
    assert cluster and psutil.wait_procs(cluster, 60)[1] == []


def test_an_environment_that_cannot_be_sent_is_refused():
    lock = threading.Lock()
    with pytest.raises(ConfigError, match=r"environment's function cannot be sent to the actors"):
        build_run(demo(players=1), make_env=lambda: lock and registry.make("coop_compete_v0"))


def test_no_room_and_no_cluster_are_told(monkeypatch):
    monkeypatch.setattr("srl_train.distributed.ray_engine.cluster.PLACED_WITHIN", 2.0)
    with pytest.raises(ConfigError, match=r"the cluster has .*'GPU': 0.0"):
        build_run(demo(player_gpus=1000.0))
    for address in ("127.0.0.1:1", "ray://127.0.0.1:1", "nowhere"):
        with pytest.raises(ConfigError, match=f"engine.address: got '{address}'"):
            build_run(demo(address=address))
    with pytest.raises(ConfigError, match=r"'auto' .*`ray start --head` starts a cluster here"):
        build_run(demo(address="auto"))
