"""Sides of `benchmarks.peers` that need no peer."""

import pytest

from benchmarks import peers
from benchmarks.peer_sides import games
from srl_agents.llm import tiny

SLOW = [pytest.param(side, marks=pytest.mark.slow) for side in (peers.TEAM[1], peers.SOLO[1])]


@pytest.mark.parametrize("side", [peers.SOLO[0], *SLOW], ids=["solo", "passes", "TRL"])
def test_training_is_measured(tmp_path, side):
    make_env, steps = (games.Team, games.TURNS) if side in peers.TEAM else (games.solo, 1)
    found = side.measure(tmp_path, base=str(tiny.folder(make_env)), rounds=2, rate=1e-3, seed=0)
    assert found["steps"] == steps and found["round_seconds"] > 0
    assert 2 * found["answers"] <= found["tokens"] <= 4 * 2 * found["answers"]  # of two rounds
    assert len(found["rewards"]) == 2 and all(0.0 <= reward <= 1.5 for reward in found["rewards"])


def test_evaluation_is_measured(tmp_path):
    side = peers.Side("ours", "evaluation", {"runner": "ours", "episodes": 2})
    assert len(side.measure(tmp_path)["returns"]) == 2
