"""Models of a run on Ray that sample in stub servers; actors are objects of this process."""

import threading
import time
from contextlib import closing

import pytest

from srl_agents.errors import ServingError
from srl_extensions.vllm import client, fleet
from srl_train.build import build_run
from srl_train.config.engine import RayEngineConfig
from srl_train.errors import ConfigError
from srl_train.round import train_round
from srl_train.schedule import ScheduleContext, build_schedule
from tests.servers.vllm_program import interpreter
from tests.servers.vllm_stub import sampled_versions, stub_server
from tests.srl_extensions.cluster.direct import DirectCluster, use
from tests.srl_extensions.cluster.stub_servers import StubServer

ADAPTERS = {"models__adapters": {"rank": 4}, "algorithm__learning_rate": 0.01}


@pytest.fixture(autouse=True)
def stub_servers(monkeypatch):
    monkeypatch.setattr(StubServer, "made", [])
    monkeypatch.setattr(fleet, "ModelServer", StubServer)
    monkeypatch.setattr(fleet, "LOOK", 0.05)
    monkeypatch.setattr(fleet, "RESTART_WAIT", 0.05)
    monkeypatch.setattr(client, "UNREACHABLE", 0.3)


@pytest.fixture
def served(short_run, monkeypatch, tmp_path):
    """Function that builds a run; `dies` as for DirectCluster, `engine` as in the configuration."""
    runs = []
    published = tmp_path / "published"
    published.mkdir()

    def make(*, dies=lambda method: False, engine=None, servers=None, managed=None, **settings):
        use(monkeypatch, cluster := DirectCluster(dies))
        own = {"python": interpreter(tmp_path), **(managed or {})}
        running = {"servers": servers} if servers else {"managed": own}
        backend = {"name": "vllm", "folder": str(published), **running}
        config = short_run(**{**ADAPTERS, "backend": backend, **settings})
        config = config.replaced(engine=RayEngineConfig(**(engine or {})))
        run = build_run(config, server_logs=tmp_path / "run" / "server-logs")
        run.cluster = cluster
        runs.append(run)
        return run

    yield make
    for run in runs:
        run.players.close()
    assert not any(one.alive() for one in StubServer.made)
    assert not any(published.iterdir())


def play(run, rounds, before=lambda number: None):
    """Play rounds and check that every answer is from the newest version of its model."""
    for number in range(run.next_round, run.next_round + rounds):
        versions = dict(run.versions)
        before(number)
        result = train_round(run, number)
        run.next_round = number + 1
        for agent, found in sampled_versions(result.episodes).items():
            [one] = found
            model = run.seats[agent]
            assert one.version == versions[model]
        for row in result.row["models"].values():
            assert row["sampler_divergence_max"] < 1e-4
            assert row["staleness"]["max"] == 0


def test_players_sample_the_newest_version(served, tmp_path):
    run = served(engine={"rollout_workers": 2}, managed={"replicas": 2})
    play(run, 2)
    assert run.versions == {"model_0": 2, "model_1": 2}
    for one in StubServer.made:
        assert len(one.stub.adapters) == 4  # the newest and the previous version of each model
        assert one.stub.counts["/v1/completions"] > 8, "both receive requests"
    assert {one.spec.log_folder for one in StubServer.made} == {tmp_path / "run" / "server-logs"}
    assert len(StubServer.made) == 2 and len(list((tmp_path / "published").iterdir())) == 1


def test_a_dead_server_is_restarted_with_the_published_adapters(served):
    run = served()
    server = StubServer.made[0]

    def kill(number):
        if number == 0:
            server.kill()  # between two rounds
        if number == 1:
            threading.Timer(0.05, server.kill).start()  # during requests

    play(run, 3, kill)
    assert server.alive()


def test_running_servers_are_used_by_their_addresses(served, tiny_folder):
    with stub_server(tiny_folder) as stub:
        run = served(servers=[stub.url], engine={"rollout_workers": 2})
        play(run, 2)
        assert not StubServer.made and len(stub.adapters) == 4
        run.players.close()


def test_a_restarted_player_samples_the_version_of_its_episodes(served):
    struck = []

    def dies(method):
        return method in struck and not struck.clear()

    run = served(dies=dies)
    play(run, 2, lambda number: struck.append(["play", "learn"][number]))
    assert not struck and run.cluster.deaths == 2


def test_rounds_are_played_ahead(served):
    engine = {"play_ahead": True, "rollout_workers": 2}
    run = served(engine=engine, updates__max_staleness=3, rounds=3)
    with closing(build_schedule(ScheduleContext(run, lambda number: False))) as schedule:
        results = [schedule.next_round() for _ in range(3)]
    for model, buffer in run.buffers.items():
        # A model that is slower than the other by more than its room drops samples.
        assert 4 * run.versions[model] + buffer.dropped.total() == 4 * 3
    for result in results:
        assert all(len(versions) == 1 for versions in sampled_versions(result.episodes).values())
        for row in result.row["models"].values():
            assert not row["samples"] or row["staleness"]["max"] <= 3
            assert row.get("sampler_divergence_max", 0.0) < 1e-4


def test_a_dead_server_of_a_whole_model_ends_the_run(served):
    """A restarted server would answer from its base, which players do not notice."""
    run = served(models__adapters=None)
    play(run, 1)
    threading.Timer(0.05, StubServer.made[0].kill).start()
    began = time.monotonic()
    with pytest.raises(ServingError, match="0 restarts are allowed and were not enough"):
        for number in range(1, 20):
            train_round(run, number)
    assert time.monotonic() - began < 30.0  # Requests would wait longer.


def test_managed_servers_require_a_cluster_of_one_machine(served, monkeypatch):
    monkeypatch.setattr(DirectCluster, "is_one_machine", False)
    with pytest.raises(ConfigError, match=r"^backend\.managed: .* give backend\.servers"):
        served()


def test_play_ahead_with_opponent_pools_is_refused(served):
    settings = {"opponent_pools": {"past": {"every": 1}}, "seats": {"agent_1": "past"}}
    with pytest.raises(ConfigError, match="opponent_pools"):
        served(engine={"play_ahead": True}, **settings)
