"""Command `srl serve models`, which runs servers in the foreground."""

import json
import os
import signal

from srl_extensions.vllm import cli as serve
from srl_extensions.vllm.server import is_free
from srl_train import cli
from srl_train.config import yaml_file
from tests.servers.vllm_program import interpreter


def test_serve_models_runs_servers_until_interrupted(short_run, tmp_path, capsys, monkeypatch):
    managed = {"python": interpreter(tmp_path), "replicas": 2}
    config = short_run(models__adapters={"rank": 4}, backend={"name": "vllm", "managed": managed})
    path = tmp_path / "run.yaml"
    path.write_text(yaml_file.dump(config))
    printed = []

    def interrupt(seconds):
        printed.append(capsys.readouterr().out)
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(serve, "sleep", interrupt)
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setenv("CORE_SRL_CACHE", str(tmp_path))
    assert cli.main(["serve", "models", str(path)]) == 0
    urls = json.loads(printed[0].split("  servers: ")[1].splitlines()[0])
    assert len(set(urls)) == 2
    assert signal.getsignal(signal.SIGTERM) is before
    assert "have ended" in capsys.readouterr().out
    assert all(is_free(int(url.rpartition(":")[2])) for url in urls)
    assert len(list((tmp_path / "server-logs").glob("*.log"))) == 2


def test_serve_models_requires_managed_servers(short_run, tmp_path, capsys):
    path = tmp_path / "run.yaml"
    path.write_text(yaml_file.dump(short_run()))
    assert cli.main(["serve", "models", str(path)]) == 2
    assert "backend.managed" in capsys.readouterr().err
