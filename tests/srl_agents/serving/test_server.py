"""Processes of servers: start, readiness, refusals, drain, and that nothing is left of them."""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from srl_agents.errors import ServingError
from srl_agents.serving import server as server_module
from srl_agents.serving.process import guard
from srl_agents.serving.process.loopback import complete_one_token, served_models
from srl_agents.serving.process.records import ServerRecord, claim, is_claimed, read_records
from srl_agents.serving.server import ModelServer, free_port
from tests.servers.chat_server import chat_server
from tests.servers.faulty_http import Handler

from .conftest import any_port


async def ready(server):
    server.start()
    await server.wait_ready(20)


def engine_of(server):
    """Process number of what the server started last."""
    return int(re.findall(r"engine (\d+)", server.log.read_text())[-1])


def runs(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(pid, seconds=15.0):
    end = time.monotonic() + seconds
    while runs(pid) and time.monotonic() < end:
        time.sleep(0.05)
    return not runs(pid)


def until(true, seconds=20.0):
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.02)
    assert true()


def test_a_server_starts_computes_and_ends_with_all_it_started(new_server):
    server = new_server()

    async def course():
        await ready(server)
        assert server.alive and await served_models(server.url, 5) == ["base"]
        assert [record.url for record in read_records()] == [server.url]
        await server.stop()

    asyncio.run(course())
    assert not server.alive and gone(engine_of(server)) and not list(read_records())
    with socket.socket() as free:
        free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        free.bind(("127.0.0.1", server.spec.port))


def test_it_is_started_again_on_the_same_port(new_server):
    server = new_server()

    async def course():
        await ready(server)
        first = engine_of(server)
        server.kill()
        assert gone(first) and not server.alive
        await ready(server)
        await server.stop()

    asyncio.run(course())


def test_it_is_started_again_at_once_after_its_guard_was_killed(new_server):
    server = new_server()
    asyncio.run(ready(server))
    os.kill(server._process.pid, signal.SIGKILL)  # the inner guard and the rest still run
    server._process.wait()
    asyncio.run(ready(server))


def test_who_starts_it_again_waits_for_who_kills_it(new_server, monkeypatch):
    server = new_server()
    asyncio.run(ready(server))
    waits, may_end = threading.Event(), threading.Event()

    def wait_for_the_rest(group):
        waits.set()
        may_end.wait(20)

    monkeypatch.setattr(server, "_wait_for_the_rest", wait_for_the_rest)
    killing = threading.Thread(target=server.kill)
    killing.start()
    assert waits.wait(20)
    starting = threading.Thread(target=server.start)
    starting.start()
    starting.join(0.1)
    assert starting.is_alive() and not server.alive
    may_end.set()
    for thread in (killing, starting):
        thread.join(20)
    assert server.alive
    asyncio.run(server.wait_ready(20))


def test_what_another_one_has_at_its_address_is_not_waited_for(new_server, monkeypatch):
    monkeypatch.setattr(server_module, "LAST_MOMENTS", 60.0)
    server = new_server()
    asyncio.run(ready(server))
    os.killpg(server._process.pid, signal.SIGKILL)
    until(lambda: not is_claimed(server.url))
    _, lock = claim(ServerRecord(server.url, "another", "m", "l"))
    killing = threading.Thread(target=server.kill, daemon=True)
    killing.start()
    killing.join(20)
    assert not killing.is_alive() and is_claimed(server.url)
    os.close(lock)


def test_a_server_is_killed_whose_record_somebody_has_removed(new_server):
    server = new_server()
    asyncio.run(ready(server))
    os.killpg(server._process.pid, signal.SIGKILL)
    until(lambda: not list(read_records()))  # which removes records of servers that are gone
    server.kill()


def test_a_port_in_use_is_refused_at_once_also_by_a_server_that_only_starts(new_server):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ServingError, match=f"port {port} of 127.0.0.1 cannot be used"):
            new_server(port=port).start()
        assert free_port("127.0.0.1", port) > port
    # A real server listens only after it has imported for many seconds.
    starting = new_server(port=port)
    starting.start()
    with pytest.raises(ServingError, match=f"{port} belongs to a server that runs or starts"):
        new_server(port=port).start()
    assert free_port("127.0.0.1", port) > port
    assert starting.alive


def test_a_death_at_the_start_is_told_with_its_cause(new_server):
    server = new_server(dies="no such model")
    with pytest.raises(ServingError, match=r"ended as it started: started / no such model / guard"):
        asyncio.run(ready(server))
    asyncio.run(server.stop())


def test_a_server_that_dies_of_the_first_request_was_never_ready(new_server):
    server = new_server(dies_of_request=True)
    with pytest.raises(
        ServingError, match="ended as it started: ValueError: head size 16; its log"
    ):
        asyncio.run(ready(server))
    assert gone(engine_of(server))


def test_the_cause_is_of_the_last_start(new_server):
    server = new_server(dies="first")
    with pytest.raises(ServingError):
        asyncio.run(ready(server))
    server.log.write_text(server.log.read_text() + "ValueError: before\n")
    with pytest.raises(ServingError, match="started / first"):
        asyncio.run(ready(server))


def test_answers_under_way_are_finished_where_there_is_time(new_server):
    server = new_server(seconds=0.6)

    async def course():
        await ready(server)
        asked = asyncio.create_task(complete_one_token(server.url, "base", 20))
        await asyncio.sleep(0.2)
        await server.stop(drain=10)
        await asked

    asyncio.run(course())
    assert gone(engine_of(server))


def test_a_server_that_does_not_end_is_ended(new_server, monkeypatch):
    monkeypatch.setattr(guard, "GRACE", 0.3)
    server = new_server(hangs=True)

    async def course():
        await ready(server)
        await server.stop()

    asyncio.run(course())
    assert gone(engine_of(server))


@pytest.mark.parametrize("holds_the_pipe", [False, True])
def test_nothing_is_left_of_it_when_its_parent_is_killed(spec, holds_the_pipe):
    made = spec()
    program = (
        "import asyncio, json, os, pathlib, sys, time\n"
        "from srl_agents.serving.command import ServerSpec\n"
        "from srl_agents.serving.server import ModelServer\n"
        "told = json.loads(sys.argv[1])\n"
        "told['log_folder'] = pathlib.Path(told['log_folder'])\n"
        "server = ModelServer(ServerSpec(**told))\n"
        "server.start()\n"
        "asyncio.run(server.wait_ready(20))\n"
        f"child = os.fork() if {holds_the_pipe} else 1\n"  # as multiprocessing's fork
        "if child == 0: time.sleep(20); os._exit(0)\n"
        "print(server._process.pid, child, flush=True)\n"
        "time.sleep(600)\n"
    )
    told = {"model": made.model, "served_name": "base", "port": made.port, "python": made.python,
            "log_folder": str(made.log_folder)}  # fmt: skip
    parent = subprocess.Popen(
        [sys.executable, "-c", program, json.dumps(told)], stdout=subprocess.PIPE, text=True
    )
    guard_pid, child = map(int, parent.stdout.readline().split())
    engine = engine_of(ModelServer(made))
    assert runs(guard_pid) and runs(engine)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert gone(engine, 10) and gone(guard_pid, 1)
    until(lambda: not list(read_records()))
    assert runs(child) if holds_the_pipe else True
    if holds_the_pipe:
        os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("victim", ["outer", "inner"])
def test_nothing_is_left_of_it_when_its_guard_is_killed(new_server, monkeypatch, victim):
    server = new_server()
    asyncio.run(ready(server))
    outer = server._process.pid
    with open(f"/proc/{outer}/task/{outer}/children") as file:
        [inner] = map(int, file.read().split())
    os.kill(outer if victim == "outer" else inner, signal.SIGKILL)  # as Ray does with children
    assert gone(engine_of(server)) and gone(inner)


def test_records_of_others_are_data():
    good = {"url": "http://127.0.0.1:1", "served_name": "b", "model": "m", "log": "l"}
    path, lock = claim(ServerRecord(**good))

    def read(tree):
        path.write_text(tree if isinstance(tree, str) else json.dumps(tree))
        [found] = read_records()
        return found

    assert read(good) == ServerRecord(**good)
    for wrong in (
        "{",
        [],
        good | {"url": 1},
        good | {"more": "1"},
        {"url": "http://127.0.0.1:1"},
        good | {"url": "http://127.0.0.1"},
        good | {"url": "http://example.com:80"},
        good | {"url": "http://127.0.0.1.example.com:80"},
        good | {"url": "file:///etc/passwd"},
        good | {"url": "http://[::1:80"},
        good | {"log": "x" * 20_000},
    ):
        assert isinstance(read(wrong), ServingError), wrong
    os.close(lock)
    assert not list(read_records()) and not path.exists()


def test_nobody_claims_an_address_while_its_old_record_is_removed(monkeypatch):
    record = ServerRecord("http://127.0.0.1:1", "b", "m", "l")
    _, lock = claim(record)
    os.close(lock)
    claims, unlink = [], Path.unlink
    claiming = threading.Thread(target=lambda: claims.append(claim(record)))

    def slowly(path):
        claiming.start()
        claiming.join(0.1)
        unlink(path)

    monkeypatch.setattr(Path, "unlink", slowly)
    assert not is_claimed(record.url)
    claiming.join(20)
    assert is_claimed(record.url)
    [(_, lock)] = claims
    os.close(lock)


def test_an_unreachable_server_and_one_that_is_none_are_told_apart():
    with pytest.raises(OSError):
        asyncio.run(served_models(f"http://127.0.0.1:{any_port()}", 5))


def test_a_reply_that_drips_without_end_meets_its_deadline(monkeypatch):
    def drip(handler, _):
        handler.send_response(200)
        handler.end_headers()
        with suppress(OSError):  # the client has hung up
            while not handler.server.closing.wait(0.001):
                handler.wfile.write(b" ")
        handler.close_connection = True

    monkeypatch.setattr(Handler, "_answer", drip)
    with chat_server() as server, pytest.raises(TimeoutError, match=r"within 0\.2 s"):
        asyncio.run(served_models(server.url, 0.2))


def test_relative_paths_are_those_of_who_starts_it(spec, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").mkdir()
    own = replace(spec(), python="./python", model="model", log_folder=Path("logs"))
    server = ModelServer(own)

    async def course():
        await ready(server)  # in the folder of its log
        await server.stop()

    asyncio.run(course())
    assert server.log == tmp_path / "logs" / server.log.name
    command = server._command
    assert command[command.index("--model") + 1] == str(tmp_path / "model")


def test_what_is_not_there_is_told_before_anything_starts(spec, tmp_path):
    with pytest.raises(ServingError, match="there is no program '~/vllm/bin/python'"):
        ModelServer(replace(spec(), python="~/vllm/bin/python"))
    (tmp_path / "a_file").write_text("")
    server = ModelServer(replace(spec(), log_folder=tmp_path / "a_file"))
    with pytest.raises(ServingError, match=r"no log can be written to .* \(File exists\)"):
        server.start()
    assert not list(read_records())
