"""Algorithms of other frameworks learn one of our environments in the examples."""

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
        # Reward per agent and step: 0.7625 for uniform play, 0.85 at the optimum.
        ("stable_baselines3_ppo", ("stable_baselines3", "supersuit"), 0.81),
        ("torchrl_ppo", ("torchrl",), 0.81),
        ("rllib_ppo", ("ray",), 0.79),
        # Reward per step: about 0 for random moves, 1.11 on the shortest path.
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
    rewards = re.search(r": (-?[\d.]+|nan) .*, (-?[\d.]+|nan) after \d+ steps", done.stdout)
    assert rewards is not None, done.stdout
    before, after = map(float, rewards.groups())
    assert math.isfinite(before) and math.isfinite(after)
    assert before < 0.78 and after > reached
