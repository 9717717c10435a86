"""`srl replay`: verification of records, and animations."""

import json

import pytest

from srl_agents.episode import write_jsonl
from srl_agents.rollout import play_many
from srl_agents.scripted import Always
from srl_envs import registry
from srl_train import cli
from tests.srl_extensions.pages.pages import blocks, document


@pytest.fixture
def record(tmp_path):
    """Return a file of sample episodes with two episodes of five turns."""

    def game():
        return registry.make("coop_compete_pair_v0", max_cycles=5)

    seats = {"agent_0": Always(0), "agent_1": Always(1)}
    path = tmp_path / "run" / "episodes" / "round_00000003.jsonl"
    write_jsonl(path, play_many(game, seats, [1, 2]))
    write_jsonl(path.with_name("round_00000002.jsonl"), [])
    return path


def test_a_record_is_checked(record, capsys):
    assert cli.main(["replay", str(record), "--episode", "1"]) == 0
    assert capsys.readouterr().out == f"{record}, episode 1: 5 turns replayed, as recorded\n"


def test_replay_of_a_run_uses_its_newest_episodes(record, capsys):
    assert cli.main(["replay", str(record.parents[1])]) == 0
    assert f"{record}, episode 0" in capsys.readouterr().out


def turns_in(page):
    [transcript] = blocks(document(page), "transcript")
    return [turn["number"] for turn in transcript["turns"]]


def test_an_animation_is_written(record, tmp_path, capsys):
    page = tmp_path / "game.html"
    assert cli.main(["replay", str(record), "--out", str(page)]) == 0
    assert turns_in(page) == [0, 1, 2, 3, 4, 5]
    assert f"{page}: 6 frames of" in capsys.readouterr().out


def tamper(path, change):
    lines = path.read_text().splitlines()
    episode = json.loads(lines[0])
    change(episode)
    path.write_text("\n".join([json.dumps(episode), *lines[1:]]) + "\n")


def test_a_tampered_record_is_refused_and_leaves_no_file(record, tmp_path, capsys):
    def more(episode):
        episode["turns"][4][1]["reward"] += 1.0

    tamper(record, more)
    out = tmp_path / "game.html"
    assert cli.main(["replay", str(record), "--out", str(out)]) == 2
    assert "turn 5, agent_1: the recorded reward" in capsys.readouterr().err
    assert not out.exists()


def test_code_named_by_a_record_requires_trust(record, capsys):
    own = {"variant": "pair", "num_agents": 2, "max_cycles": 5}
    made = {"name": "srl_envs.games.coop_compete:parallel_env", "options": own}
    tamper(record, lambda episode: episode.update(made_as=made))
    assert cli.main(["replay", str(record)]) == 2
    assert "'srl_envs.games.coop_compete:parallel_env' is code that a record names" in (
        capsys.readouterr().err
    )
    assert cli.main(["replay", str(record), "--trust"]) == 0


def test_output_replaces_a_link_instead_of_its_target(record, tmp_path):
    name = "game.html"
    mine, folder = tmp_path / "mine.txt", tmp_path / "of_others"
    mine.write_text("precious")
    folder.mkdir()
    (folder / name).symlink_to(mine)
    (folder / f"{name}.partial").symlink_to(mine)
    assert cli.main(["replay", str(record), "--out", str(folder / name)]) == 0
    assert mine.read_text() == "precious"
    assert (folder / name).is_file() and not (folder / name).is_symlink()
    assert sorted(path.name for path in folder.iterdir()) == [name, f"{name}.partial"]
