"""The example with a third-party environment learns."""

import re
import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.interop
def test_example_learns_to_beat_rock(tmp_path, monkeypatch, capsys):
    pytest.importorskip("pygame", reason="the game imports pygame: make test-interop")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES / "interop" / "third_party_game.py"), run_name="__main__")
    said = capsys.readouterr().out
    assert "> Paper.\n+1. You see: rock" in said
    before, after = map(float, re.findall(r"([+-][\d.]+) (?:before|after)", said))
    assert -0.4 < before < 0.4 and after > 0.9
