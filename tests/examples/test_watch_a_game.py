"""The example of watching runs as it stands."""

import re
import runpy
import sys
from pathlib import Path

from tests.srl_extensions.pages.pages import blocks, document

EXAMPLE = Path(__file__).parents[2] / "examples" / "watch_a_game.py"


def test_watch_a_game(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["watch_a_game.py", str(tmp_path)])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    said = capsys.readouterr().out
    assert "agent_4, defaulting_trader" in said
    assert "played again: 24 turns, the same rewards" in said
    words = dict(re.findall(r"(agent_\d) keeps its word: (\S+)", said))
    assert float(words.pop("agent_4")) < 0.5
    assert min(map(float, words.values())) >= 0.5
    [transcript] = blocks(document(tmp_path / "market.html"), "transcript")
    assert len(transcript["turns"]) == 25
