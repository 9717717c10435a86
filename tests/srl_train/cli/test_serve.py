"""`srl serve`: servers in the foreground, and the list of those that run."""

import asyncio
import json
import os
import signal
import socket

import pytest

from srl_agents.errors import ServingError
from srl_agents.serving.command import Keys, ServerSpec
from srl_agents.serving.process.records import ServerRecord, claim
from srl_agents.serving.server import ModelServer, free_port
from srl_train import cli
from srl_train.cli.serve import models as serve
from srl_train.config import yaml_file
from srl_train.players.served import server_specs
from tests.servers.vllm_program import interpreter


@pytest.fixture(autouse=True)
def own_records(monkeypatch, tmp_path):
    monkeypatch.setenv("CORE_SRL_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def server(tmp_path):
    spec = ServerSpec(
        model="/models/m", served_name="base", port=free_port("127.0.0.1", 18001),
        log_folder=tmp_path, python=interpreter(tmp_path),
    )  # fmt: skip
    server = ModelServer(spec)
    server.start()
    asyncio.run(server.wait_ready(20))
    yield server
    server.kill()


def status(capsys, *words):
    assert cli.main(["serve", "status", *words]) == 0
    return capsys.readouterr().out


def test_status_where_nothing_runs(capsys):
    assert "no model server runs here" in status(capsys)
    assert json.loads(status(capsys, "--json")) == []


def test_status_of_one_that_answers_its_run_alone(tmp_path, capsys):
    spec = ServerSpec(
        model="/models/m", served_name="base", port=free_port("127.0.0.1", 18001),
        log_folder=tmp_path, python=interpreter(tmp_path), keys=Keys.drawn(),
    )  # fmt: skip
    server = ModelServer(spec)
    server.start()
    try:
        asyncio.run(server.wait_ready(20))
        assert f"{server.url}  base  answers its run alone, which has the key" in status(capsys)
    finally:
        server.kill()


def test_status_of_one_that_runs_one_that_starts_and_one_that_is_no_record(server, capsys):
    starting = f"http://127.0.0.1:{free_port('127.0.0.1', server.spec.port + 1)}"
    _, lock = claim(ServerRecord(starting, "x\x1b[31m", "m", "l"))
    _, other = claim(ServerRecord("http://127.0.0.1:1", "x", "m", "l"))
    os.pwrite(other, b"[", 0)
    told = status(capsys)
    assert f"{server.url}  base  ready" in told and f"log {server.log}" in told
    assert f"{starting}  x\\x1b[31m  starting" in told and "\x1b" not in told
    assert "passed over: " in told and "is no record" in told
    found = {one["url"]: one for one in json.loads(status(capsys, "--json"))}
    assert found[server.url] == {
        "url": server.url, "served_name": "base", "model": "/models/m", "log": str(server.log),
        "adapters": [], "state": "ready",
    }  # fmt: skip
    os.close(lock)
    os.close(other)
    server.kill()
    assert json.loads(status(capsys, "--json")) == []


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_among_the_records_is_passed_over(capsys, tmp_path, make):
    place = tmp_path / "cache" / "servers" / "127.0.0.1%3A18001.json"
    place.parent.mkdir(parents=True)
    make(place)
    assert "is no file: remove it" in status(capsys)
    assert free_port("127.0.0.1", 18001) > 18001
    with pytest.raises(ServingError, match=r"is no file: remove it|Is a directory"):
        claim(ServerRecord("http://127.0.0.1:18001", "x", "m", "l"))


def test_a_folder_of_records_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "cache").write_text("")
    with pytest.raises(ServingError, match=r"no record can be written at .* \(Not a directory\)"):
        claim(ServerRecord("http://127.0.0.1:18001", "x", "m", "l"))


def test_status_of_one_that_does_not_compute(server, capsys, monkeypatch):
    monkeypatch.setattr(serve, "PATIENCE", 0.3)
    os.killpg(server._process.pid, signal.SIGSTOP)
    assert "  fails: " in status(capsys)


def test_models_are_served_until_somebody_says_enough(short_run, tmp_path, capsys, monkeypatch):
    taken = socket.create_server(("127.0.0.1", 0))
    port = taken.getsockname()[1]
    monkeypatch.setattr(server_specs, "FIRST_PORT", port)  # where no base_port is given
    managed = {"python": interpreter(tmp_path), "replicas": 2}
    config = short_run(models__adapters={"rank": 4}, backend={"name": "vllm", "managed": managed})
    path = tmp_path / "run.yaml"
    path.write_text(yaml_file.dump(config))
    seen, told = [], []

    def look(seconds):
        told.append(capsys.readouterr().out)
        seen.extend(json.loads(status(capsys, "--json")))
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(serve, "sleep", look)
    before = signal.getsignal(signal.SIGTERM)
    words = ["serve", "models", str(path), "--logs", str(tmp_path / "logs"), "--drain", "0"]
    assert cli.main(words) == 0
    taken.close()
    urls = [one["url"] for one in seen]
    assert len(set(urls)) == 2 and f"http://127.0.0.1:{port}" not in urls
    assert [one["state"] for one in seen] == ["ready", "ready"]
    assert sorted(json.loads(told[0].split("  servers: ")[1].splitlines()[0])) == sorted(urls)
    assert signal.getsignal(signal.SIGTERM) is before
    assert "ending the servers" in capsys.readouterr().out
    assert json.loads(status(capsys, "--json")) == []
    assert len(list((tmp_path / "logs").glob("*.log"))) == 2


def test_a_configuration_without_servers_to_start_is_refused(short_run, tmp_path, capsys):
    path = tmp_path / "run.yaml"
    path.write_text(yaml_file.dump(short_run()))
    assert cli.main(["serve", "models", str(path)]) == 2
    assert "backend.managed: there is nothing to start" in capsys.readouterr().err
