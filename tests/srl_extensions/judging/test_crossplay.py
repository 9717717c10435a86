"""`srl crossplay`: players, results, page and refusals."""

import json

import pytest

from srl_agents.episode import read_jsonl
from srl_train import cli
from tests.srl_extensions.pages.pages import document

SHORT = ["--set", "max_cycles=4", "--episodes", "3"]
THREE = ["always_cooperate", "always_compete", "tit_for_tat"]
PAIR = ["uniform", "tit_for_tat"]
BATTLE, COOP = ["--environment", "team_battle_v0"], ["--environment", "coop_compete_v0"]


def results(words, folder):
    assert cli.main(["crossplay", *words, *SHORT, "--out", str(folder)]) == 0
    return json.loads((folder / "results.json").read_text())


def test_several_environments_in_one_command(tmp_path, capsys):
    record = results([*THREE, *BATTLE, *COOP], tmp_path)
    assert record["schema_version"] == 2
    assert [one["name"] for one in record["players"]] == THREE
    arenas = {one["name"]: one for one in record["arenas"]}
    assert list(arenas) == [BATTLE[1], COOP[1]]
    battle = arenas["team_battle_v0"]
    assert battle["two_sided"] and 0 <= battle["rankings"]["tit_for_tat"]["won"] <= 1
    assert battle["games"][0]["turns"] == 4
    assert arenas["coop_compete_v0"]["rankings"]["tit_for_tat"]["won"] is None
    printed = capsys.readouterr().out
    assert "alpha-rank" in printed and f"{battle['matrix'][0][1]['mean']:.3f}" in printed
    shown = document(tmp_path / "results.html")
    titles = [section["title"] for section in shown["sections"]]
    assert titles == [*arenas]
    payoffs, *_ = shown["sections"][0]["blocks"]
    assert [row[0].partition("] ")[2] for row in payoffs["rows"]] == THREE
    assert payoffs["rows"][0][2].startswith(f"{battle['matrix'][0][1]['mean']:.3f} (")


def test_the_seed_determines_the_file(tmp_path):
    first, again, other = (
        results([*PAIR, *BATTLE, "--quiet", "--seed", seed], tmp_path / name)
        for name, seed in (("a", "1"), ("b", "1"), ("c", "2"))
    )
    assert first == again != other


def test_recorded_games_can_be_replayed(tmp_path):
    record = results(["always_cooperate", "uniform", *BATTLE], tmp_path)
    path = tmp_path / "games/team_battle_v0.jsonl"
    assert len(list(read_jsonl(path))) == len(record["arenas"][0]["games"]) == 12
    assert cli.main(["replay", str(path)]) == 0


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["uniform", *BATTLE], "at least two"),
        (["uniform", "uniform", *BATTLE], "must be different"),
        (PAIR, "--environment"),
        (["uniform", "tit_for_tat", "--environment", "maze_race_v0"], "cannot play"),
    ],
)
def test_wrong_arguments_are_refused_before_any_game(words, reason, tmp_path, capsys):
    assert cli.main(["crossplay", *words, "--out", str(tmp_path / "out")]) == 2
    assert reason in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
