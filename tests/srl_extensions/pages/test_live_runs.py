"""Run folders are read while they grow, in bounded memory, and nothing outside of their root."""

import json
import math
import os

import pytest

from srl_extensions.pages import live_runs
from srl_extensions.pages.live_document import of_run
from srl_extensions.pages.live_runs import (
    GrowingFile,
    Rounds,
    RunFolders,
    RunFollower,
    open_beneath,
)
from srl_train.metrics.errors import RunFolderError
from srl_train.metrics.run_folder import load, number_at
from srl_train.metrics.sinks import JsonlSink
from tests.srl_extensions.pages.synthetic_runs import row, stage_row, write_run


@pytest.fixture
def root(tmp_path):
    return tmp_path.resolve()


def follower(folder):
    return RunFollower(folder, folder.parent)


def add(folder, *numbers, from_round=None):
    sink = JsonlSink(folder / "metrics.jsonl", from_round)
    for number in numbers:
        sink.write(row(number))
    sink.close()


# Growing files


def test_only_new_complete_lines_are_read(root):
    path = root / "metrics.jsonl"
    growing = GrowingFile(path, root)
    assert growing.read() == (False, [])
    path.write_bytes(b"one\ntw")
    assert growing.read() == (False, [b"one"])
    with path.open("ab") as file:
        file.write(b"o\nthree\n")
    assert growing.read() == (False, [b"two", b"three"])
    assert growing.read() == (False, [])


@pytest.mark.parametrize(
    "again",
    [
        lambda path: path.write_bytes(b"1\n"),
        lambda path: path.write_bytes(b"1\nlonger than it was before\n"),
        lambda path: (
            path.with_name("new").write_bytes(b"1\n"),
            path.with_name("new").rename(path),
        ),
    ],
    ids=["shorter", "longer", "another file"],
)
def test_a_file_that_was_replaced_is_read_from_its_beginning(root, again):
    path = root / "metrics.jsonl"
    growing = GrowingFile(path, root)
    path.write_bytes(b"old\nolder\n")
    growing.read()
    again(path)
    replaced, lines = growing.read()
    assert replaced and lines[0] == b"1"


def test_a_line_that_is_too_long_does_not_hide_the_following_lines(root, monkeypatch):
    monkeypatch.setattr(live_runs, "CHUNK", 8)
    path, lines = root / "metrics.jsonl", []
    path.write_bytes(b"a\n" + b"x" * 50 + b"\nb\n")
    growing = GrowingFile(path, root)
    for _ in range(12):
        lines += growing.read()[1]
    assert lines[0] == b"a" and lines[-1] == b"b"


def test_links_out_of_the_root_and_pipes_are_refused(tmp_path):
    root = tmp_path.resolve() / "root"
    (root / "inner").mkdir(parents=True)
    (root.parent / "secret").write_text("secret")
    (root / "own").write_text("own")
    (root / "out").symlink_to(root.parent / "secret")
    (root / "up").symlink_to(root.parent)
    (root / "inner" / "link").symlink_to(root / "own")
    os.mkfifo(root / "pipe")
    for name in ("out", "up/secret", "../secret", "pipe", "inner"):
        with pytest.raises(RunFolderError):
            open_beneath(root / name, root)
    with open_beneath(root / "inner" / "link", root) as file:
        assert file.read() == b"own"


@pytest.mark.parametrize("swapped", ["", "run", "run/episodes", "run/episodes/file"])
def test_a_component_swapped_for_a_link_during_the_read_gives_no_file_outside(
    tmp_path, monkeypatch, swapped
):
    root, outside = tmp_path.resolve() / "root", tmp_path.resolve() / "outside"
    for top, content in ((root, "own"), (outside, "secret")):
        (top / "run" / "episodes").mkdir(parents=True)
        (top / "run" / "episodes" / "file").write_text(content)
    resolve = os.path.realpath

    def resolve_and_swap(path):
        """Resolve the path, and swap a component before the file is opened."""
        real = resolve(path)
        (root / swapped).rename(tmp_path / "away")
        (root / swapped).symlink_to(outside / swapped)
        return real

    monkeypatch.setattr(os.path, "realpath", resolve_and_swap)
    with pytest.raises((OSError, RunFolderError)):
        open_beneath(root / "run" / "episodes" / "file", root)


# Rows that are combined


def rounds_of(rows):
    rounds = Rounds()
    for one in rows:
        rounds.add(json.dumps(one).encode())
    return rounds


def series(rounds, *keys):
    return [number_at(one, *keys) for one in rounds.rows]


def test_rows_of_long_runs_are_combined(monkeypatch):
    monkeypatch.setattr(live_runs, "MOST_ROWS", 8)
    rows = [row(number, raw_reward=float(number), winners={"ab"[number % 2]: 1})
            for number in range(21)]  # fmt: skip
    rounds = rounds_of(rows)
    assert rounds.stride == 4
    assert series(rounds, "round") == [3, 7, 11, 15, 19, 20]
    assert series(rounds, "environment", "raw_reward") == [1.5, 5.5, 9.5, 13.5, 17.5, 20]
    for keys in (("environment", "episodes"), ("models", "model_0", "samples"),
                 ("models", "model_0", "weight_change"), ("models", "model_1", "updated"),
                 ("seconds", "rollout")):  # fmt: skip
        total = math.fsum(number_at(one, *keys) for one in rows)
        assert math.fsum(series(rounds, *keys)) == pytest.approx(total)
    assert rounds.rows[0]["environment"]["winners"] == {"a": 2, "b": 2}
    assert (
        rounds.rows[-2]["models"]["model_0"]["updates"] == rows[19]["models"]["model_0"]["updates"]
    )


@pytest.mark.parametrize("count", [7, 8, 9, 500])
def test_rows_stay_few_and_the_last_round_is_there(monkeypatch, count):
    monkeypatch.setattr(live_runs, "MOST_ROWS", 8)
    rounds = rounds_of([row(number) for number in range(count)])
    assert len(rounds.rows) <= 8 and rounds.rows[-1]["round"] == count - 1


# Runs


def test_a_followed_run_equals_a_loaded_run(root):
    folder = write_run(root / "run", stage_rows=[stage_row(0, "sft", 0), stage_row(1, "sft", 1)])
    followed = follower(folder)
    assert followed.refresh()
    watched, loaded = followed.run(), load(folder)
    assert watched.rows == loaded.rows and watched.models == loaded.models
    assert watched.stages == loaded.stages and watched.baselines == loaded.baselines
    assert watched.environment == loaded.environment and watched.strategy == loaded.strategy
    assert watched.files == ("round_00000.jsonl", "round_00039.jsonl")
    assert not followed.refresh()


def test_rounds_are_read_as_they_end_and_again_if_the_run_was_resumed(root):
    folder = write_run(root / "run", rows=[row(0), row(1)])
    followed = follower(folder)
    followed.refresh()
    add(folder, 2, 3)
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"round": 4, "envir')
    assert followed.refresh() and followed.run().rounds == [0, 1, 2, 3]
    add(folder, 2, from_round=2)
    assert followed.refresh() and followed.run().rounds == [0, 1, 2]
    assert followed.run().total("environment", "episodes") == 48


def test_damaged_lines_are_left_out_and_counted(root):
    folder = write_run(root / "run", rows=[row(0)])
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(f'no json\n[1]\n{{"round": 1}}\n{"[" * 5000}\n{json.dumps(row(2))}\n')
    followed = follower(folder)
    followed.refresh()
    assert followed.run().rounds == [0, 2]
    assert followed.run().notes == ("4 lines of metrics.jsonl cannot be read.",)


def test_no_link_out_of_the_folder_is_followed(root):
    elsewhere = write_run(root / "elsewhere" / "run")
    folder = root / "watched" / "run"
    folder.mkdir(parents=True)
    for name in ("metrics.jsonl", "config.yaml", "summary.json", "episodes"):
        (folder / name).symlink_to(elsewhere / name)
    (root / "watched" / "other").symlink_to(elsewhere)
    followed = RunFollower(folder, folder.parent)
    followed.refresh()
    run = followed.run()
    assert run.rounds == [] and run.config == {} and run.summary == {} and run.files == ()
    assert len(run.notes) == 4 and all("leads outside" in note for note in run.notes)
    folders = RunFolders([root / "watched"])
    folders.look()
    assert list(folders.runs) == ["run"]


def test_runs_are_found_below_a_folder_as_they_appear(root):
    folders = RunFolders([root / "runs"])
    folders.look()
    assert folders.runs == {}
    write_run(root / "runs" / "one")
    write_run(root / "runs" / "sweep" / "seed_0")
    folders.look()
    assert set(folders.runs) == {"one", "sweep/seed_0"}
    write_run(root / "runs" / "two")
    folders.look()
    assert set(folders.runs) == {"one", "sweep/seed_0", "two"}


def test_only_so_many_runs_are_followed(root, monkeypatch):
    monkeypatch.setattr("srl_extensions.pages.live_runs.MOST_RUNS", 2)
    for name in "abc":
        write_run(root / name)
    folders = RunFolders([root])
    folders.look()
    assert len(folders.runs) == 2 and folders.left_out == 1


FILES = (
    "metrics.jsonl",
    "playing.jsonl",
    "config.yaml",
    "summary.json",
    "episodes/round_00040.jsonl",
)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", ["circle", "pipe", "folder", "nowhere", "endless"])
def test_files_that_are_not_plain_files_are_left_out(root, name, kind):
    folder = write_run(root / "run", rows=[row(0)])
    path = folder / name
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to({"circle": path.name, "nowhere": "not there", "endless": "/dev/zero"}[kind])
    followed = follower(folder)
    followed.refresh()
    run = followed.run()
    assert list(run.files) == ["round_00000.jsonl", "round_00039.jsonl"]
    assert run.rounds == ([] if name == "metrics.jsonl" else [0])
    assert of_run("run", run).sections
