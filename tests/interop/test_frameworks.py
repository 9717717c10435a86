"""Every framework's own algorithm learns one of our games, by the example that shows how."""

import importlib.util
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.interop
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("example", "needs", "reached"),
    [
        # Uniform play earns 0.7625 a round, the optimum is 0.85.
        ("stable_baselines3_ppo", ("stable_baselines3", "supersuit"), 0.81),
        ("torchrl_ppo", ("torchrl",), 0.81),
        ("rllib_ppo", ("ray",), 0.79),
        # Random moves earn about 0, the shortest way 1.11 a step.
        ("gymnasium_vector", ("gymnasium",), 1.0),
    ],
)
def test_example(example, needs, reached):
    for module in needs:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed: make test-interop")
    done = subprocess.run(
        [sys.executable, str(ROOT / f"examples/interop/{example}.py")],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env=os.environ | {"PYTHONPATH": str(ROOT), "RAY_USAGE_STATS_ENABLED": "0"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    said = re.search(r"earned (-?[\d.]+|nan) a \w+, .* steps (-?[\d.]+|nan)", done.stdout)
    assert said is not None, done.stdout
    before, after = float(said[1]), float(said[2])
    assert math.isfinite(before) and math.isfinite(after)
    assert before < 0.78 and after > reached
