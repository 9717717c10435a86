"""`srl crossplay`: who meets, what is told and written."""

import json
import re

import pytest

from srl_agents.episode import read_jsonl
from srl_train import cli
from tests.srl_extensions.pages.pages import blocks, document, words

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
    told = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["method", "seeds", "self-play", "cross-play", "gap"] in told
    shown = [f"{gap[key]:z.3f}" for key in ("self_play", "cross_play", "gap")]
    assert ["group", "2", *shown] in told


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


def test_the_page_shows_what_was_found(tmp_path):
    environments = ["--environment", "team_battle_v0", "--environment", "coop_compete_v0"]
    record = judged([*THREE, *environments, *SHORT, "--quiet"], tmp_path)
    shown = document(tmp_path / "results.html")
    titles = [section["title"] for section in shown["sections"]]
    assert titles == ["Ratings over all environments", environments[1], environments[3]]
    blocks = shown["sections"][1]["blocks"]
    heat = blocks[0]
    assert heat["kind"] == "heatmap" and heat["labels"] == THREE
    mean = record["arenas"][0]["matrix"][0][1]["mean"]
    assert heat["values"][0][1] == pytest.approx(mean, rel=1e-5)
    assert [block["summary"].partition(":")[0] for block in blocks[-4:]] == [
        *["Most was earned"] * 2, *["Least was earned"] * 2,
    ]  # fmt: skip


def test_players_are_scored_with_held_out_partners_as_srl_eval_scores_them(tmp_path, capsys):
    words = ["always_cooperate", "uniform", "--environment", "coop_compete_pair_v0", *SHORT]
    record = judged([*words, "--held-out"], tmp_path)
    scores = record["held_out"]
    scenarios = ["coop_compete_pair_v0.pavlov", "coop_compete_pair_v0.alternator"]
    assert [(one["scenario"], one["player"]) for one in scores] == [
        (scenario, player) for scenario in scenarios for player in ("always_cooperate", "uniform")
    ]
    out = tmp_path / "scores.json"
    alone = ["--scenario", scenarios[0], "--policy", "uniform", "--episodes", "3"]
    assert cli.main(["eval", *alone, "--out", str(out)]) == 0
    [score] = json.loads(out.read_text())["scores"]
    assert scores[1]["focal_return"] == score["focal_return"]
    sections = document(tmp_path / "results.html")["sections"]
    assert sections[-1]["title"] == "Scores with held-out partners"
    told = capsys.readouterr().out
    assert re.search(r"^coop_compete_pair_v0\.pavlov +pavlov +uniform  ", told, re.MULTILINE)


def test_games_are_rated_again_without_being_played(tmp_path, capsys):
    record = judged([*THREE, "--environment", "team_battle_v0", *SHORT], tmp_path / "a")
    judged(["tit_for_tat", "uniform", "--environment", "coop_compete_v0", *SHORT], tmp_path / "b")
    out = tmp_path / "ratings.json"
    assert cli.main(["rate", str(tmp_path / "a"), "--out", str(out)]) == 0
    assert json.loads(out.read_text())["ratings"] == record["arenas"][0]["ratings"]["ratings"]
    files = [str(tmp_path / name / "results.json") for name in "ab"]
    assert cli.main(["rate", *files, "--out", str(out)]) == 0
    both = json.loads(out.read_text())
    assert {one["player"] for one in both["ratings"]} == {*THREE, "uniform"}
    assert both["environments"] == ["team_battle_v0", "coop_compete_v0"]
    capsys.readouterr()
    assert cli.main(["rate", files[0], files[0]]) == 2
    assert "given twice" in capsys.readouterr().err
    assert cli.main(["rate", files[0], "--environment", "maze_v0"]) == 2
    assert "there are games of team_battle_v0" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "not JSON"),
        ("[]", "holds no results of cross-play"),
        ('{"schema_version": 9, "arenas": []}', "schema version 9"),
        ('{"schema_version": 1, "arenas": [{"name": 3}]}', "lacks or mistypes"),
    ],
)
def test_damaged_results_are_refused(text, told, tmp_path, capsys):
    path = tmp_path / "results.json"
    path.write_text(text)
    assert cli.main(["rate", str(path)]) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["uniform", "--environment", "team_battle_v0"], "one player alone meets nobody"),
        (["uniform", "uniform", "--environment", "team_battle_v0"], "uniform is given twice"),
        (["=uniform", "tit_for_tat", "--environment", "team_battle_v0"], "names nobody"),
        (
            [
                "uniform",
                "uniform=tit_for_tat",
                "--scenario",
                "staged_v0.with_a_preying_adversary",
                "--held-out",
            ],
            "has no scenarios with held-out partners",
        ),
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


def test_two_players_are_told_why_they_have_no_rating(tmp_path, capsys):
    judged(["uniform", "tit_for_tat", "--environment", "coop_compete_v0", *SHORT], tmp_path)
    told = capsys.readouterr().out
    assert "no ratings: a match takes three players" in told
    assert "25.00" not in told and "alpha-rank" in told  # OpenSkill's start is no rating
    page = words(document(tmp_path / "results.html"))
    assert "no ratings: a match takes three players" in page and "OpenSkill" not in page


def test_means_are_told_with_their_intervals(tmp_path, capsys):
    record = judged(
        ["uniform", "tit_for_tat", "--environment", "coop_compete_v0", *SHORT], tmp_path
    )
    told = capsys.readouterr().out
    [drawn] = blocks(document(tmp_path / "results.html"), "heatmap")
    for row, notes in zip(record["arenas"][0]["matrix"], drawn["notes"], strict=True):
        for cell, note in zip(row, notes, strict=True):
            low, high = cell["interval"]
            assert f"{cell['mean']:.3f} +- {(high - low) / 2:.3f}" in told
            assert note == f"{low:.4g} to {high:.4g}"


def test_games_of_another_cross_play_are_not_written_over(tmp_path, capsys):
    words = ["uniform", "tit_for_tat", "--environment", "coop_compete_v0", *SHORT, "--quiet"]
    before = judged(words, tmp_path)
    assert cli.main(["crossplay", *words, "--seed", "1", "--out", str(tmp_path)]) == 2
    assert f"{tmp_path} is there already: give another folder" in capsys.readouterr().err
    assert json.loads((tmp_path / "results.json").read_text()) == before
