"""`srl crossplay`: who meets, what is told and written."""

import json

import pytest

from srl_agents.episode import read_jsonl
from srl_train import cli

SHORT = ["--set", "max_cycles=4", "--episodes", "3"]
THREE = ["always_cooperate", "always_compete", "tit_for_tat"]


def judged(words, folder):
    assert cli.main(["crossplay", *words, "--out", str(folder)]) == 0
    return json.loads((folder / "results.json").read_text())


def test_several_environments_are_played_by_one_command(tmp_path, capsys):
    environments = ["--environment", "team_battle_v0", "--environment", "coop_compete_v0"]
    scenario = ["--scenario", "staged_v0.with_a_preying_adversary"]
    record = judged([*THREE, *environments, *scenario, *SHORT], tmp_path)
    assert record["schema_version"] == 1
    assert [one["name"] for one in record["players"]] == THREE
    arenas = {one["name"]: one for one in record["arenas"]}
    assert list(arenas) == [environments[1], environments[3], scenario[1]]
    battle = arenas["team_battle_v0"]
    assert battle["ratings"]["by"] == "winners" and battle["two_sided"]
    assert [cell["games"] for cell in battle["matrix"][0]] == [3, 6, 6]
    assert battle["games"][0]["turns"] == 4
    assert arenas["coop_compete_v0"]["ratings"]["by"] == "returns with the same partners"
    told = capsys.readouterr().out
    assert "alpha-rank" in told and f"{battle['matrix'][0][1]['mean']:.3f}" in told


def test_the_same_seed_gives_the_same_file(tmp_path):
    words = ["uniform", "tit_for_tat", "--environment", "team_battle_v0", *SHORT, "--quiet"]
    first, again, other = (
        judged([*words, "--seed", seed], tmp_path / name)
        for name, seed in (("a", "1"), ("b", "1"), ("c", "2"))
    )
    assert first == again != other


def test_the_gap_is_told_for_players_of_one_group(tmp_path, capsys):
    groups = ["group=always_cooperate", "group=always_compete", "uniform"]
    record = judged([*groups, "--environment", "coop_compete_pair_v0", *SHORT], tmp_path)
    [gap] = record["arenas"][0]["gaps"]
    assert gap["players"] == ["always_cooperate", "always_compete"]
    assert gap["gap"] == pytest.approx(gap["self_play"] - gap["cross_play"]) and gap["gap"] > 0
    assert "group (2 seeds): self-play" in capsys.readouterr().out


def test_best_and_worst_games_are_kept_to_be_replayed(tmp_path, capsys):
    words = ["always_cooperate", "uniform", "--environment", "team_battle_v0", *SHORT, "--record"]
    record = judged(words, tmp_path)
    games = record["arenas"][0]["games"]
    assert len(list(read_jsonl(tmp_path / "games/team_battle_v0.jsonl"))) == len(games) == 12
    [best, _] = read_jsonl(tmp_path / "games/team_battle_v0.best.jsonl")
    sides = {game["seed"]: [] for game in games}
    most = max(max(game["first_return"], game["second_return"]) for game in games)
    assert max(best.returns().values()) >= most - 1e-9 and best.seed in sides
    assert cli.main(["replay", str(tmp_path / "games/team_battle_v0.worst.jsonl")]) == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["uniform", "--environment", "team_battle_v0"], "one player alone meets nobody"),
        (["uniform", "uniform", "--environment", "team_battle_v0"], "uniform is given twice"),
        (["=uniform", "tit_for_tat", "--environment", "team_battle_v0"], "names nobody"),
        (["uniform", "tit_for_tat"], "give --environment ENV or --scenario NAME"),
        (["uniform", "random_walker", "--environment", "maze_v0"], "one agent"),
        (["uniform", "tit_for_tat", "--environment", "maze_race_v0"], "cannot play"),
        (["uniform", "nobody_such", "--environment", "team_battle_v0"], "unknown player"),
        (
            ["uniform", "tit_for_tat", "--environment", "team_battle_v0", "--set", "x.y=1"],
            "x is none of --environment",
        ),
        (
            ["uniform", "tit_for_tat", "--environment", "team_battle_v0", "--device", "cpu"],
            "--device is for models",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(words, told, tmp_path, capsys):
    assert cli.main(["crossplay", *words, "--out", str(tmp_path / "out")]) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
