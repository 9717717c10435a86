import json

import pytest

from benchmarks.training import team_battle


@pytest.fixture(scope="module")
def result(tiny_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("team_battle")
    overrides = {
        "environment.options": {"team_size": 2, "max_cycles": 2, "warmup_episodes": 0},
        "models.base": tiny_folder,
        "rollout.group_size": 2,
        "rollout.groups_per_round": 1,
        "logging.evaluation_episodes": 3,
        "rounds": 1,
    }
    modes = {name: team_battle.VARIANTS[name] for name in ("cooperative", "competitive")}
    return folder, team_battle.measure([1], folder, overrides=overrides, variants=modes)


def test_every_agent_and_winner_is_counted(result):
    _, found = result
    for run in found["runs"]:
        assert set(run["agents"]) == {"red_0", "red_1", "blue_0", "blue_1"}
        mean = sum(run["agents"].values()) / 4
        assert run["raw_reward"] == pytest.approx(mean)
        assert sum(run["winners"].values()) == 3
    text = team_battle.markdown(found)
    assert text.count("\n| cooperative | 1 |") == 1
    json.dumps(found)


def test_the_report_sets_the_modes_side_by_side(result):
    folder, _ = result
    page = (folder / "comparison_1.html").read_text()
    assert "cooperative_1" in page and "competitive_1" in page


def test_the_rules_say_what_selfish_play_earns():
    # At difficulty .3: base .7; all cooperate .7 + .25 / 2, all compete .7 - .25 / 2.
    known = team_battle.known_values({"difficulty": 0.3, "max_cycles": 6})
    assert known["all cooperate"] == pytest.approx(0.825)
    assert known["all compete"] == pytest.approx(0.575)
    # One's own share of the team is worth .25 / 4; competing gains .15 * p more and saves
    # .05 * (1 - (1 + 3 p) / 4): equal at p = 2 / 9.
    assert known["selfish equilibrium, probability of cooperating"] == pytest.approx(2 / 9)
    assert known["selfish equilibrium"] == pytest.approx(0.65)


def test_targets_can_be_missed():
    good = {"variant": "cooperative", "agents": {"a": 0.81, "b": 0.82}, "raw_reward": 0.815}
    bad = {**good, "agents": {"a": 0.79, "b": 0.84}}
    apart = {"variant": "competitive", "agents": {}, "raw_reward": 0.6}
    near = {**apart, "raw_reward": 0.80}

    def held(*runs):
        return [check.held for check in team_battle.checks({"runs": runs})]

    assert held(good, apart) == [True, True]
    assert held(bad, near) == [False, False]
