"""Tables and evaluation of classic algorithms; training requires `make bench-classic`."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from benchmarks import classic
from srl_envs import make


def cooperate(rows, state, starts):
    """Return action 1 for all agents, and a memory."""
    assert (state is None) == starts.all() and rows.shape == (len(starts), 7)
    return np.ones(len(rows), int), "memory"


def run(algorithm, seed, **scores):
    return {"game": "bandit_v1", "algorithm": algorithm, "seed": seed, **scores}


def test_table_has_intervals_between_the_reference_values():
    runs = [
        run(classic.IPPO, 0, train=0.2, test=0.5),
        run(classic.IPPO, 1, train=0.4, test=0.5),
        run(classic.RECURRENT, 0, train=0.6, test=0.7),
    ]
    headers, _, train, test = (line.split(" | ") for line in classic.table(runs).splitlines())
    known = "uniform", "constant", "scripted"
    assert headers[1:] == [*known, *classic.CLASSIC, classic.MODEL, "optimum |"]
    found = dict(zip(headers, train, strict=True))
    # 12.7062 standard errors of .1 on each side: two values have one degree of freedom.
    assert found[classic.IPPO] == "0.300 (-0.971 to 1.571)" and found[classic.RECURRENT] == "0.600"
    assert found[classic.MAPPO] == "" and found["optimum |"] == "0.700 |"
    assert test[0] == "| `bandit_v1`, test" and test[1:4] == ["0.500", "0.500", "0.651"]


@pytest.mark.slow
def test_documented_reference_values_are_those_of_baselines():
    page = Path(classic.__file__).parents[1] / "docs" / "environments" / "games.md"
    rows = re.findall(r"^`(\w+)` \| (.+) \| (.+) \| (.+) \|.*\|.*\| (.+)$", page.read_text(), re.M)
    assert len(rows) == 8
    for name, *cells in rows:
        for at, split in enumerate(("train", "test")):
            known = make(name, **({} if "social" in name else {"split": split})).baselines()
            for value, cell in zip(known.values(), cells, strict=True):
                text = cell.replace("\N{MINUS SIGN}", "-").split(", ")[at if "," in cell else 0]
                assert text == f"{value:.{len(text.partition('.')[2])}f}"


def test_references_of_scenarios_are_in_order(monkeypatch):
    monkeypatch.setitem(classic.PLAN, "scenario_episodes", 8)
    known = classic.references("maze_v0.small", "test")
    # Random walks in mazes often run out of time.
    assert known["uniform"] < 0 < known["scripted"] <= known["optimum"] < 10
    duel = classic.references("staged_v0.adversary_of_a_bully", "train")
    assert duel["constant"] < duel["scripted"] and "optimum" not in duel


def test_known_runs_are_not_repeated(tmp_path, monkeypatch):
    monkeypatch.setattr(classic, "SCENARIOS", {})
    monkeypatch.setitem(classic.PLAN, "games", ["bandit_v1"])
    monkeypatch.setitem(classic.PLAN, "model_seeds", 1)
    trained = []

    def train(seed, game, algorithm=classic.MODEL):
        trained.append((seed, algorithm))
        return {"train": 0.5, "test": 0.5}, range(16)

    monkeypatch.setattr(classic, "trained", train)
    monkeypatch.setattr(classic, "model_trained", train)
    runs = tmp_path / "runs.jsonl"
    assert classic.main(["--runs", str(runs), "--seeds", "0"]) == 0
    assert classic.main(["--runs", str(runs), "--seeds", "0", "1"]) == 0
    assert trained == sorted(trained) and len(trained) == 9
    assert {name for seed, name in trained if seed == 0} == {*classic.CLASSIC, classic.MODEL}
    assert {name for seed, name in trained if seed == 1} == {*classic.CLASSIC}
    row = json.loads(runs.read_text().splitlines()[-1])
    assert row["curve"] == [0.5, 2.5, 4.5, 6.5, 8.5, 10.5, 12.5, 14.5]


@pytest.mark.usefixtures("one_model")
def test_language_model_learns_and_plays_all_rule_sets(monkeypatch):
    settings = {"rollout": {"group_size": 2, "groups_per_round": 1}}
    monkeypatch.setitem(classic.SETTINGS, classic.MODEL, classic.SETTINGS[classic.MODEL] | settings)
    monkeypatch.setitem(classic.PLAN["model_rounds"], "coop_compete_pair_v1", 2)
    monkeypatch.setitem(classic.PLAN, "model_episodes", 1)
    scores, rewards = classic.model_trained(0, "coop_compete_pair_v1")
    assert len(rewards) == 2
    assert set(scores) == {"train", "test"} and all(0.4 < one < 1.0 for one in scores.values())


@pytest.mark.parametrize("split", ["train", "test"])
def test_evaluation_plays_every_rule_set_equally_often(split, monkeypatch):
    monkeypatch.setitem(classic.PLAN, "episodes", 2)
    game = "coop_compete_pair_v1"
    found = classic.mean_reward(cooperate, game, split)
    # 512 rewards with noise of standard deviation 0.05.
    assert found == pytest.approx(make(game, split=split).baselines()["constant"], abs=0.01)
