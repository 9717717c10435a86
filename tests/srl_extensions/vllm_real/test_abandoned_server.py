"""All processes of a real server end soon after their parent.

This file is the first by name, so the server of the session has not started yet.
"""

import json
import subprocess
import sys
import time
from dataclasses import asdict

from tests.srl_extensions.vllm_real.process_groups import group

PARENT = """
import json, pathlib, sys, time
from srl_extensions.vllm.server import ServerSpec
from srl_extensions.vllm.fleet import Fleet
spec = json.loads(sys.argv[1])
spec["log_folder"] = pathlib.Path(spec["log_folder"])
fleet = Fleet.managed([ServerSpec(**spec)])
print(fleet.members[0].server.process.pid, flush=True)
time.sleep(600)
"""


def test_no_process_is_left_ten_seconds_after_the_parent_was_killed(server_spec):
    spec = json.dumps(asdict(server_spec) | {"log_folder": str(server_spec.log_folder)})
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, spec], stdout=subprocess.PIPE, text=True
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
