"""TRL's own trainer plays and learns on an OpenEnv server: the example that shows how."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.openenv
def test_openenv_grpo():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(ROOT / "examples/interop/openenv_grpo.py")],
        capture_output=True,
        text=True,
        check=False,
        timeout=1200,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    steps = re.findall(
        r"step \d: ([\d.]+) a round, ([\d.]+) calls per episode, ([\d.]+) of them failed",
        done.stdout,
    )
    earned, calls, failed = (list(map(float, column)) for column in zip(*steps, strict=True))
    assert len(earned) == 5
    # The model calls the tool once per round, and no call fails.
    assert min(calls) > 3.8 and max(failed) == 0.0
    assert earned[-1] > earned[0] + 0.05
