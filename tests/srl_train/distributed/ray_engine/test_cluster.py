"""Real clusters on this machine: equal to the bit on one node and two, and through ten kills."""

import threading
from pathlib import Path

import numpy as np
import psutil
import pytest

from srl_envs import registry
from srl_train.config import yaml_file
from srl_train.config.engine import RayEngineConfig
from srl_train.config.learning.offline import DpoConfig, SftConfig
from srl_train.engine.assemble import assemble
from srl_train.engine.rounds import run_round
from srl_train.errors import ConfigError
from srl_train.trainer import Trainer
from tests.srl_train.engine.run_state import everything, same, without_times

pytestmark = pytest.mark.ray
pytest.importorskip("ray")

DEMO = Path(yaml_file.__file__).parents[2] / "examples" / "configs" / "demo.yaml"
ROUNDS = 10


def demo(**engine):
    config = yaml_file.load(DEMO)
    return config.replaced(engine=RayEngineConfig(**engine)) if engine else config


def trained(config, watch=lambda: None):
    """The run's whole state after ROUNDS rounds; its actors are ended."""
    run = assemble(config)
    watch()
    try:
        for number in range(ROUNDS):
            run_round(run, number)
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


def test_an_environment_that_cannot_be_sent_is_refused():
    lock = threading.Lock()
    with pytest.raises(ConfigError, match=r"environment's function cannot be sent to the actors"):
        assemble(demo(players=1), make_env=lambda: lock and registry.make("coop_compete_v0"))


def test_no_room_and_no_cluster_are_told(monkeypatch):
    monkeypatch.setattr("srl_train.distributed.ray_engine.cluster.PLACED_WITHIN", 2.0)
    with pytest.raises(ConfigError, match=r"the cluster has .*'GPU': 0.0"):
        assemble(demo(player_gpus=1000.0))
    for address in ("127.0.0.1:1", "ray://127.0.0.1:1", "nowhere"):
        with pytest.raises(ConfigError, match=f"engine.address: got '{address}'"):
            assemble(demo(address=address))
    with pytest.raises(ConfigError, match=r"'auto' .*`ray start --head` starts a cluster here"):
        assemble(demo(address="auto"))
