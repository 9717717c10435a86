"""Examples with environments run unchanged."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from srl_agents.episode import read_jsonl
from srl_envs.scenarios import names
from srl_extensions.offline.data import read_episodes
from tests.srl_extensions.pages.pages import blocks, document

ROOT = Path(__file__).parents[2]


def output_of(example, *words):
    return subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / example), *words],
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
    assert "player_1    0.000  rock" in said


@pytest.mark.parametrize(
    ("environment", "own"),
    [("coop_compete_v1", ()), ("coop_compete_pair_v1", ("--policy", "tit_for_tat"))],
)
def test_evaluate_scenarios(environment, own):
    said = output_of("evaluate_scenarios.py", environment, "--episodes", "8", *own)
    headers, *rows = [line.split(" | ") for line in said.splitlines()]
    assert headers[-4:-1] == ["best scripted", "best constant", "uniform"]
    assert [row[0].removesuffix(" *") for row in rows] == [*names(environment)]
    for row in rows:
        _, best, *others, constant, uniform, difference = row
        assert len(row) == len(headers) and len(others) == len(own) // 2
        assert not own or best.startswith("tit_for_tat ")
        assert constant.startswith("action ") and uniform.startswith("uniform ")
        gain, low, high = map(float, re.findall(r"[+-]\d+\.\d+", difference))
        assert low <= gain <= high
        assert gain == pytest.approx(float(best.split()[1]) - float(constant.split()[2]), abs=0.02)


@pytest.mark.slow
def test_evaluate_and_collect(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(ROOT / "examples" / "evaluate_and_collect.py"), run_name="__main__")
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


def test_watch_a_game(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(ROOT / "examples" / "watch_a_game.py"), run_name="__main__")
    said = capsys.readouterr().out
    assert "agent_4, defaulting_trader" in said
    assert "replayed 24 steps with equal rewards" in said
    reputations = dict(re.findall(r"reputation of (agent_\d): (\S+)", said))
    assert float(reputations.pop("agent_4")) < 0.5
    assert min(map(float, reputations.values())) >= 0.5
    [transcript] = blocks(document(tmp_path / "runs/watching/market.html"), "transcript")
    assert len(transcript["turns"]) == 25
