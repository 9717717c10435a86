"""evaluate_and_collect.py runs as it stands; what it keeps is right, and can be learned from."""

import re
import runpy
from pathlib import Path

import pytest

from srl_agents.episode import read_jsonl
from srl_train.offline_data import read_episodes

EXAMPLE = Path(__file__).parents[2] / "examples" / "evaluate_and_collect.py"


@pytest.mark.slow
def test_evaluate_and_collect(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    said = capsys.readouterr().out
    found = re.findall(r"pass@(\d): (\d\.\d+) \((\d\.\d+) to (\d\.\d+)\)", said)
    assert [k for k, *_ in found] == ["1", "4", "8"]
    estimates = [float(estimate) for _, estimate, *_ in found]
    assert estimates == sorted(estimates) and 0.0 < estimates[0] < estimates[-1]
    for _, estimate, low, high in found:
        assert float(low) <= float(estimate) <= float(high)
    [(answers, problems, right)] = re.findall(r"(\d+) answers to (\d+) problems, (\d+) of", said)
    assert int(answers) == 32 and 1 < int(problems) <= 8
    path = tmp_path / "runs" / "evaluate_and_collect" / "solved.jsonl"
    games = list(read_jsonl(path))
    assert len(games) == int(right) > 0
    assert all(game.turns[-1][0].info["success"] for game in games)
    assert len(read_episodes(path, "code_v0", ["agent_0"])) == len(games)
