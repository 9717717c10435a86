"""The examples about environments run as they stand."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def output_of(example):
    return subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / example)],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    ).stdout


def test_pettingzoo_loop():
    found = re.match(r"mean reward per agent and step: (0\.\d+);", output_of("pettingzoo_loop.py"))
    assert found is not None
    assert 0.74 < float(found[1]) < 0.79  # uniform play: .7625


def test_custom_environment():
    said = output_of("custom_environment.py")
    assert "('Paper.', 'rock') -> {'player_0': 1.0, 'player_1': -1.0}" in said
    # An unreadable answer plays rock, which beats scissors, and costs .5.
    assert "('I cannot decide', 'scissors') -> {'player_0': 0.5, 'player_1': -1.0}" in said
    assert "Your last answer was not read: no legal choice stood alone on the last line." in said
    assert "player_1  rock" in said


def test_evaluate_scenarios():
    said = output_of("evaluate_scenarios.py")
    scored = re.findall(r"  (\w+): (\d+\.\d+) \((\d+\.\d+) to (\d+\.\d+)\)", said)
    assert [who for who, *_ in scored] == ["content", "pavlov"] * 5
    assert said.count(" *: ") == 2
    for _, mean, low, high in scored:
        assert float(low) <= float(mean) <= float(high)
    # With a partner that always cooperates, agreeing in all 16 rounds earns 0.85 each.
    assert float(scored[1][1]) == pytest.approx(13.6, abs=0.2)
