"""Sides of `benchmarks.peers` that need no peer."""

import pytest

from benchmarks import peers
from benchmarks.peer_sides import games
from benchmarks.peer_sides.words import TURNS
from srl_agents.llm import tiny


@pytest.mark.parametrize(
    ("side", "make_env", "steps"),
    [(peers.TEAM[1], games.Team, TURNS), *((side, games.solo, 1) for side in peers.SOLO)],
    ids=["passes", "solo", "TRL"],
)
def test_training_is_measured(tmp_path, side, make_env, steps):
    base = str(tiny.folder(make_env))
    found = side.measure(tmp_path, base=base, rounds=2, rate=1e-3, seed=0)
    assert found["steps"] == steps
    assert 2 * found["answers"] <= found["tokens"] <= 4 * 2 * found["answers"]  # of two rounds
    assert len(found["rewards"]) == 2 and found["round_seconds"] > 0
    assert all(0.0 <= reward <= 1.5 for reward in found["rewards"])


def test_evaluation_is_measured(tmp_path):
    side = peers.Side("ours", "evaluation", {"runner": "ours", "episodes": 2})
    found = side.measure(tmp_path)
    assert found["ms"] > 0 and len(found["returns"]) == 2
