"""No process of a real server outlives its parent for long.

Stands first by its name: the session's own server has not started yet.
"""

import json
import subprocess
import sys
import time
from dataclasses import asdict

from tests.srl_extensions.vllm_real.process_groups import group

PARENT = """
import json, pathlib, sys, time
from srl_extensions.vllm.command import ServerSpec
from srl_extensions.vllm.fleet import Fleet
told = json.loads(sys.argv[1])
told["log_folder"] = pathlib.Path(told["log_folder"])
fleet = Fleet.managed(
    [ServerSpec(**told)], concurrency=1, deadline=60.0
)
print(fleet.members[0].server.process.pid, flush=True)
time.sleep(600)
"""


def test_no_process_is_left_ten_seconds_after_the_parent_was_killed(server_spec):
    told = json.dumps(asdict(server_spec) | {"log_folder": str(server_spec.log_folder)})
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, told], stdout=subprocess.PIPE, text=True
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
