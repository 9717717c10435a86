"""No process of a real server outlives its parent for long.

Stands first by its name: the session's own server has not started yet.
"""

import json
import subprocess
import sys
import time
from dataclasses import asdict

from tests.serving_vllm.conftest import START
from tests.serving_vllm.process_groups import group

PARENT = """
import asyncio, json, pathlib, sys, time
from srl_agents.serving.command import ServerSpec
from srl_agents.serving.server import ModelServer
told = json.loads(sys.argv[1])
told["log_folder"] = pathlib.Path(told["log_folder"])
server = ModelServer(ServerSpec(**told))
server.start()
asyncio.run(server.wait_ready(float(sys.argv[2])))
print(server._process.pid, flush=True)
time.sleep(600)
"""


def test_no_process_is_left_ten_seconds_after_the_parent_was_killed(server_spec):
    told = json.dumps(asdict(server_spec) | {"log_folder": str(server_spec.log_folder)})
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, told, str(START)], stdout=subprocess.PIPE, text=True
    )
    try:
        leader = int(parent.stdout.readline())
        there = group(leader)
        assert any("EngineCor" in name for name in there.values()), there
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()
    end = time.monotonic() + 10
    while group(leader) and time.monotonic() < end:
        time.sleep(0.1)
    assert not group(leader)
