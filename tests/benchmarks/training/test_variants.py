import json
from pathlib import Path

import pytest

from benchmarks import records
from benchmarks.training import variants
from srl_train.config import yaml_file
from tests.benchmarks.training.conftest import TWO_AGENTS

TWO = {"models__count": 2, "environment__options": TWO_AGENTS}


@pytest.mark.slow
def test_every_algorithm_is_run_from_the_same_start(small):
    claim = variants.ALGORITHMS_COOP_COMPETE
    chosen = {name: variants.ALGORITHMS[name] for name in ("GRPO", "PPO")}
    request = small(games=4, seeds=(0, 1), **TWO)
    result = variants.algorithms(request, "coop_compete", chosen)
    assert [row["variant"] for row in result.rows] == ["GRPO", "PPO"] * 2
    for one, other in (result.rows[:2], result.rows[2:]):
        assert one["before"] == other["before"] and one["below_grpo"] == 0.0
        assert other["below_grpo"] == pytest.approx(1 - other["after"] / one["after"])
        assert one["gain"] == one["after"] - one["before"]
        assert len(one["curve"]) == 2 and one["half_way"] == one["curve"][1]
    text = claim.markdown(result, request)
    assert text.count("\n| PPO | ") == 1 and "coop_compete, seeds 0, 1: mean" in text
    assert [line.label for line in claim.figure.lines(result.rows)] == ["GRPO", "PPO"]
    json.dumps(result.rows)


@pytest.mark.parametrize("example", variants.GAMES.values())
def test_settings_of_every_variant_fit_every_game(example):
    for own in (*variants.ALGORITHMS.values(), *variants.STAGES.values(), *variants.MODES.values()):
        yaml_file.load(records.CONFIGS / example, own)


@pytest.mark.slow
def test_what_was_earned_is_that_of_the_games_learned_from(small):
    stages = {
        "SFT": {"sft": {"data_policy": "models", "episodes": 4, "top_fraction": 0.5}},
        "DPO": {"dpo": {"episodes": 4}},
    }
    request = small(games=4, rollout__group_size=4)
    result = variants.offline(request, {"coop_compete": "demo.yaml"}, stages)
    first, second = result.rows
    assert [first["variant"], second["variant"]] == ["SFT", "DPO"]
    assert first["before"] == second["before"] and first["data"] != second["data"]
    # An agent earns between 0.4 and 1.1 a turn in this game, and there are eight turns.
    for row in result.rows:
        assert all(3 < row[key] < 9 for key in ("before", "data", "after"))
        assert row["gain"] == row["after"] - row["data"] and row["curve"] == []
    assert variants.OFFLINE.markdown(result, request).count("\n| coop_compete, ") == 2


@pytest.mark.slow
def test_team_battle_is_told_agent_by_agent_with_its_winners(small):
    request = small(
        logging__evaluation_episodes=3,
        environment__options={"team_size": 2, "max_cycles": 2, "warmup_episodes": 0},
    )
    chosen = {name: variants.MODES[name] for name in ("cooperative", "competitive")}
    result = variants.team_battle(request, chosen)
    one, other = result.rows
    for end in (one["after"], other["after"]):
        assert end["least"] <= end["raw_reward"] <= end["most"]
        assert sum(int(words.split()[1]) for words in end["winners"].split(", ")) == 3
    assert one["below_cooperative"] == 0.0
    apart = one["after"]["raw_reward"] - other["after"]["raw_reward"]
    assert other["below_cooperative"] == apart
    assert "\n| cooperative | 3 |" in variants.TEAM_BATTLE.markdown(result, request)
    page = (request.folder / "comparison_3.html").read_text()
    assert all(Path(row["out"]).name in page for row in result.rows)


def test_the_rules_say_what_selfish_play_earns():
    # At difficulty .3: base .7; all cooperate .7 + .25 / 2, all compete .7 - .25 / 2.
    known = variants.known_values({"difficulty": 0.3, "max_cycles": 6})
    assert known["all cooperate"] == pytest.approx(0.825)
    assert known["all compete"] == pytest.approx(0.575)
    # One's own share of the team is worth .25 / 4; competing gains .15 * p more and saves
    # .05 * (1 - (1 + 3 p) / 4): equal at p = 2 / 9.
    assert known["selfish equilibrium, probability of cooperating"] == pytest.approx(2 / 9)
    assert known["selfish equilibrium"] == pytest.approx(0.65)
