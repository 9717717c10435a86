"""`srl serve`: servers in the foreground, and the list of those that run."""

import json
import os
import signal
import socket
from dataclasses import replace

import pytest

from srl_extensions.vllm import cli as serve
from srl_extensions.vllm import models
from srl_extensions.vllm.server import ModelServer, running_servers
from srl_train import cli
from srl_train.config import yaml_file
from tests.servers.vllm_program import interpreter
from tests.srl_extensions.vllm.test_server import until


@pytest.fixture(autouse=True)
def only_own_servers(monkeypatch, tmp_path):
    """Hide the servers of other tests, which may run at the same time."""

    def own():
        return (spec for spec in running_servers() if spec.log_folder.is_relative_to(tmp_path))

    monkeypatch.setattr("srl_extensions.vllm.server.running_servers", own)


@pytest.fixture
def server(spec, new_fleet):
    [member] = new_fleet(spec()).members
    return member.server


def status(capsys, *words):
    assert cli.main(["serve", "status", *words]) == 0
    return capsys.readouterr().out


def test_status_without_servers(capsys):
    assert "no model server runs here" in status(capsys)
    assert json.loads(status(capsys, "--json")) == []


def test_status_of_a_server_with_a_key(new_server, capsys):
    server = new_server(key="secret")
    server.start()
    until(lambda: "answers its run only, which has the key" in status(capsys))


def test_status_of_a_ready_server_and_one_that_starts(server, spec, capsys, tmp_path):
    shown = status(capsys)
    assert f"{server.url}  base  ready" in shown and f"log {server.log}" in shown
    starting = spec(served_name="x\x1b[31m")
    waits = tmp_path / "waits"
    waits.write_text("#!/bin/sh\nsleep 60\n")
    waits.chmod(0o755)
    other = ModelServer(replace(starting, python=str(waits)))
    other.start()
    try:
        shown = status(capsys)
        assert f"{starting.url}  x\\x1b[31m  starting" in shown and "\x1b" not in shown
    finally:
        other.kill()
    [found] = json.loads(status(capsys, "--json"))
    assert found == {
        "url": server.url, "served_name": "base", "model": server.spec.model,
        "log": str(server.log), "adapters": [], "state": "ready",
    }  # fmt: skip


def test_status_of_a_server_that_does_not_compute(server, capsys, monkeypatch):
    monkeypatch.setattr(serve, "PATIENCE", 0.3)
    os.killpg(server.process.pid, signal.SIGSTOP)
    assert "  fails: " in status(capsys)


def test_models_are_served_until_an_interrupt(short_run, tmp_path, capsys, monkeypatch):
    taken = socket.create_server(("127.0.0.1", 0))
    port = taken.getsockname()[1]
    monkeypatch.setattr(models, "FIRST_PORT", port)  # where no base_port is given
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
