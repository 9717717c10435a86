"""Processes of servers: start, end, logs, ports, and that no process is left."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from srl_agents.errors import ServingError
from srl_extensions.vllm import launcher
from srl_extensions.vllm.server import ModelServer, free_port
from tests.srl_extensions.vllm.conftest import any_port


def engine_of(server):
    """Return the process id of the fake engine, once the server has started it."""
    until(lambda: "engine" in server.log.read_text())
    return int(re.findall(r"engine (\d+)", server.log.read_text())[-1])


def runs(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def gone(pid, seconds=15.0):
    end = time.monotonic() + seconds
    while runs(pid) and time.monotonic() < end:
        time.sleep(0.02)
    return not runs(pid)


def until(condition, seconds=20.0):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    assert condition()


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_server_ends_with_all_its_processes_and_starts_again(new_server, end):
    server = new_server()
    for _ in range(2):
        server.start()
        engine = engine_of(server)
        assert server.alive()
        getattr(server, end)()
        assert not server.alive() and gone(engine)


def test_a_server_that_ignores_the_request_to_end_is_killed(new_server, monkeypatch):
    monkeypatch.setattr(launcher, "GRACE", 0)
    monkeypatch.setattr("srl_extensions.vllm.server.MARGIN", 0.3)
    server = new_server(hangs=True)
    server.start()
    engine = engine_of(server)
    server.stop()
    assert gone(engine)


def test_a_port_in_use_is_refused(new_server):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ServingError, match=f"port {port} of 127.0.0.1 cannot be used"):
            new_server(port=port).start()
    server = new_server(port=free_port([port]))
    server.start()
    with pytest.raises(ServingError, match="runs already"):
        server.start()


@pytest.mark.parametrize("victim", ["parent", "server"])
def test_no_process_is_left_after_a_kill(spec, victim):
    """Kill the trainer or the server by SIGKILL."""
    made = spec()
    program = (
        "import json, pathlib, sys, time\n"
        "from srl_extensions.vllm.server import ServerSpec\n"
        "from srl_extensions.vllm.server import ModelServer\n"
        "given = json.loads(sys.argv[1])\n"
        "given['log_folder'] = pathlib.Path(given['log_folder'])\n"
        "server = ModelServer(ServerSpec(**given))\n"
        "server.start()\n"
        "print(server.process.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    given = {"model": made.model, "served_name": "base", "port": made.port, "python": made.python,
             "log_folder": str(made.log_folder)}  # fmt: skip
    with subprocess.Popen(
        [sys.executable, "-c", program, json.dumps(given)], stdout=subprocess.PIPE, text=True
    ) as parent:
        launched = int(parent.stdout.readline())
        engine = engine_of(ModelServer(made))
        server = psutil.Process(engine).ppid()
        os.kill(parent.pid if victim == "parent" else server, signal.SIGKILL)
        assert gone(engine) and gone(server) and gone(launched)
        parent.kill()


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        ("started\nno such model\n", "started / no such model"),
        ("(EngineCore pid=7) ERROR 11-22 08:00:00 [core.py:1] ValueError: head size 16\n"
         "RuntimeError: Engine core died\n", "ValueError: head size 16"),
        ("ValueError: \x1b[2J\n", "ValueError: \\x1b[2J"),
        ("a request\n" * 30_000 + "OSError: the end\n", "OSError: the end"),
    ],
)  # fmt: skip
def test_the_cause_of_death_is_the_first_error_of_the_last_start(new_server, log, cause):
    server = new_server(dies="soon")
    server.log.parent.mkdir()
    server.log.write_text("ValueError: of the start before\n")
    server.start()
    until(lambda: not server.alive())
    server.log.write_bytes(server.log.read_bytes()[: server._log_start] + log.encode())
    assert server.cause_of_death() == f"{cause}; its log: {server.log}"
    server.log.unlink()
    assert server.cause_of_death() == f"there is no log {server.log}"


def test_relative_paths_start_in_the_current_folder(spec, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").mkdir()
    server = ModelServer(replace(spec(), python="./python", model="model", log_folder=Path("logs")))
    server.start()
    engine_of(server)
    server.kill()
    assert server.log == tmp_path / "logs" / server.log.name
    assert server.command[server.command.index("--model") + 1] == str(tmp_path / "model")


def test_missing_program_and_unwritable_log_are_reported(spec, tmp_path):
    with pytest.raises(ServingError, match="there is no program '~/vllm/bin/python'"):
        ModelServer(replace(spec(), python="~/vllm/bin/python"))
    (tmp_path / "a_file").write_text("")
    server = ModelServer(replace(spec(port=any_port()), log_folder=tmp_path / "a_file"))
    with pytest.raises(ServingError, match=r"no log can be written to .* \(.*\)"):
        server.start()
    assert not server.alive()
