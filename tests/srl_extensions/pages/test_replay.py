"""`srl replay`: a record is checked, and becomes an animation."""

import json

import pytest
from PIL import Image

from srl_agents.episode import write_jsonl
from srl_agents.rollout import play_many
from srl_agents.scripted import Always
from srl_envs import registry
from srl_train import cli
from tests.srl_extensions.pages.pages import blocks, document


@pytest.fixture
def record(tmp_path):
    """Two games of five turns, where a run keeps its sample episodes."""

    def game():
        return registry.make("coop_compete_pair_v0", max_cycles=5)

    seats = {"agent_0": Always(0), "agent_1": Always(1)}
    path = tmp_path / "run" / "episodes" / "round_00000003.jsonl"
    write_jsonl(path, play_many(game, seats, [1, 2]))
    write_jsonl(path.with_name("round_00000002.jsonl"), [])
    return path


def test_a_record_is_checked(record, capsys):
    assert cli.main(["replay", str(record), "--episode", "1"]) == 0
    assert capsys.readouterr().out == f"{record}, episode 1: 5 turns played again as recorded\n"


OWN = """
from srl_envs import make

def game():
    env = make("coop_compete_pair_v0", max_cycles=2)
    env.metadata = {"name": "plain"}  # of a game that draws nothing
    return env
"""


def test_a_game_of_ones_own_that_draws_nothing_is_checked(tmp_path, monkeypatch, capsys):
    (tmp_path / "games_that_draw_nothing.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "plain.jsonl"
    seats = {"agent_0": Always(0), "agent_1": Always(1)}
    write_jsonl(path, play_many(lambda: registry.make("games_that_draw_nothing:game"), seats, [1]))
    assert cli.main(["replay", str(path), "--trust"]) == 0
    assert "2 turns played again as recorded" in capsys.readouterr().out


def test_of_a_run_the_newest_episodes_are_taken(record, capsys):
    assert cli.main(["replay", str(record.parents[1])]) == 0
    assert f"{record}, episode 0" in capsys.readouterr().out


def turns_in(page):
    [transcript] = blocks(document(page), "transcript")
    return [turn["number"] for turn in transcript["turns"]]


def test_an_animation_is_written(record, tmp_path, capsys):
    page, gif = tmp_path / "game.html", tmp_path / "game.gif"
    assert cli.main(["replay", str(record), "--out", str(page)]) == 0
    assert turns_in(page) == [0, 1, 2, 3, 4, 5]
    assert cli.main(["replay", str(record), "--out", str(gif), "--fps", "10"]) == 0
    with Image.open(gif) as image:
        assert (image.n_frames, image.info["duration"]) == (6, 100)
    assert f"{gif}: 6 frames of" in capsys.readouterr().out


def test_some_turns_are_enough(record, tmp_path):
    page = tmp_path / "game.html"
    assert cli.main(["replay", str(record), "--out", str(page), "--turns", "2:4"]) == 0
    assert turns_in(page) == [2, 3, 4]


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
    # Also where only the turns before are to be shown.
    assert cli.main(["replay", str(record), "--out", str(out), "--turns", "0:2"]) == 2
    assert "turn 5, agent_1: the record says that it earned" in capsys.readouterr().err
    assert not out.exists()
    assert cli.main(["replay", str(record), "--out", str(tmp_path / "game.gif")]) == 2
    assert list(tmp_path.glob("game*")) == []


def test_code_that_a_record_names_runs_where_it_is_trusted_only(record, capsys):
    own = {"variant": "pair", "num_agents": 2, "max_cycles": 5}
    made = {"name": "srl_envs.games.coop_compete:parallel_env", "options": own}
    tamper(record, lambda episode: episode.update(made_as=made))
    assert cli.main(["replay", str(record)]) == 2
    assert "'srl_envs.games.coop_compete:parallel_env' is code that a record names" in (
        capsys.readouterr().err
    )
    assert cli.main(["replay", str(record), "--trust"]) == 0


def test_a_record_from_elsewhere_says_what_to_do(record, capsys):
    tamper(record, lambda episode: episode.update(made_as=None))
    assert cli.main(["replay", str(record)]) == 2
    assert "make the environment yourself and call replay()" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--episode", "2"], "--episode is 2"),
        (["--out", "game.mp4"], "give a name that ends in .gif or .html"),
        (["--turns", "3"], "--turns is '3': give FIRST:LAST, from 0 to 5"),
        (["--turns", "4:9"], "--turns is '4:9'"),
        (["--fps", "0"], "--fps is 0"),
        (["--fps", "4"], "--fps is of the animation: give --out FILE"),
        (["--turns", "0:0"], "--turns is of the animation: give --out FILE"),
    ],
)
def test_what_does_not_fit_is_one_line(record, capsys, words, reason):
    assert cli.main(["replay", str(record), *words]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("srl: error: ") and reason in line


def test_no_file_and_no_episodes_are_told(tmp_path, capsys):
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    for place in (tmp_path / "nowhere.jsonl", tmp_path, empty):
        assert cli.main(["replay", str(place)]) == 2
    assert capsys.readouterr().err.count("srl: error: no ") == 3


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda episode: episode.update(seed=-4), "the start cannot be played again: "),
        (lambda episode: episode.update(seed="a"), "TypeError: 'a' is no int"),
        (lambda episode: episode["turns"][4][1].update(reward="1.0"), "'1.0' is no number"),
        (lambda episode: episode["turns"][4][1].update(reward=10**400), "OverflowError: int"),
        (lambda episode: episode["turns"][4][1].update(agent=7), "7 is no str"),
    ],
)
def test_a_record_of_wrong_types_is_one_line(change, says, record, capsys):
    tamper(record, change)
    assert cli.main(["replay", str(record)]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("srl: error: ") and says in line


@pytest.mark.parametrize("name", ["game.html", "game.gif"])
def test_no_link_beside_the_file_is_followed(record, tmp_path, name):
    mine, folder = tmp_path / "mine.txt", tmp_path / "of_others"
    mine.write_text("precious")
    folder.mkdir()
    (folder / name).symlink_to(mine)
    (folder / f"{name}.partial").symlink_to(mine)
    assert cli.main(["replay", str(record), "--out", str(folder / name)]) == 0
    assert mine.read_text() == "precious"
    assert (folder / name).is_file() and not (folder / name).is_symlink()
    assert sorted(path.name for path in folder.iterdir()) == [name, f"{name}.partial"]
