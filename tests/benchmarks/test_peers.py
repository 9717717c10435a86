"""Sides of `benchmarks.peers` that need no peer."""

from __future__ import annotations

import pytest

from benchmarks import peers
from benchmarks.peer_sides import games
from benchmarks.peer_sides.words import TURNS
from srl_agents.llm import tiny


def test_passes_make_as_many_steps_as_magrpo(tmp_path):
    base = str(tiny.folder(games.Team))
    side = peers.TEAM[1]
    found = side.measure(tmp_path, base=base, rounds=2, rate=1e-3, seed=0)
    assert found["steps"] == TURNS
    assert len(found["rewards"]) == 2
    assert all(0.0 <= reward <= 1.0 for reward in found["rewards"])


@pytest.mark.parametrize("game", games.TEXT_GAMES)
def test_text_games_have_a_rate(tmp_path, game):
    ours = next(ours for name, ours, _ in peers.TEXT if name == game)
    assert ours.measure(tmp_path)["rate"] > 0.0
