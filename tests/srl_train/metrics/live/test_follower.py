"""A run's folder is followed from before it is there until after it is gone."""

import json
import os
import shutil

import pytest

from srl_train.metrics.live.documents import of_run, overview
from srl_train.metrics.live.folders import Folders
from srl_train.metrics.live.follower import Follower
from srl_train.metrics.report.document import plain, to_json
from srl_train.metrics.report.interactions import interactions
from srl_train.metrics.run_folder import load
from srl_train.metrics.sinks import JsonlSink
from tests.srl_train.metrics.report.synthetic_runs import config, row, stage_row, write_run


@pytest.fixture
def root(tmp_path):
    return tmp_path.resolve()


def follower(folder):
    return Follower(folder, folder.parent)


def add(folder, *numbers, from_round=None):
    sink = JsonlSink(folder / "metrics.jsonl", from_round)
    for number in numbers:
        sink.write(row(number))
    sink.close()


def test_what_is_followed_is_what_a_report_reads(root):
    folder = write_run(root / "run", stage_rows=[stage_row(0, "sft", 0), stage_row(1, "sft", 1)])
    followed = follower(folder)
    assert followed.refresh()
    watched, loaded = followed.run(), load(folder)
    assert watched.rounds == loaded.rounds and watched.models == loaded.models
    for path in (("environment", "raw_reward"), ("models", "model_1", "staleness", "mean")):
        assert watched.series(*path) == loaded.series(*path)
    assert set(watched.names("models", "model_0")) <= set(loaded.names("models", "model_0"))
    assert watched.stages == loaded.stages and watched.baselines == loaded.baselines
    assert watched.environment == loaded.environment and watched.strategy == loaded.strategy
    assert [path.name for path in watched.files] == ["round_00000.jsonl", "round_00039.jsonl"]
    assert not followed.refresh()


def test_rounds_are_taken_as_they_end_and_again_where_a_run_was_resumed(root):
    folder = write_run(root / "run", rows=[row(0), row(1)])
    followed = follower(folder)
    followed.refresh()
    add(folder, 2, 3)
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"round": 4, "envir')
    assert followed.refresh() and followed.run().rounds == [0, 1, 2, 3]
    add(folder, 2, from_round=2)
    assert followed.refresh() and followed.run().rounds == [0, 1, 2]
    assert followed.run().so_far.episodes == 48


def test_a_run_may_come_late_and_go(root):
    followed = follower(root / "run")
    assert not followed.there and not followed.refresh()
    folder = write_run(root / "run")
    assert followed.there and followed.refresh() and followed.run().done == 40
    shutil.rmtree(folder)
    assert not followed.there and followed.refresh() and followed.run().done == 0


def test_no_number_of_models_is_shown_before_the_first_round(root):
    followed = follower(write_run(root / "run", rows=[]))
    followed.refresh()
    run = followed.run()
    for page in (of_run("run", run), overview({"run": run}, [root], 0)):
        assert "no round is complete" in to_json(page) and " models" not in page.title
        assert "0 models" not in to_json(page)


def test_damaged_lines_are_left_out_and_told(root):
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
    followed = follower(folder)
    followed.refresh()
    run = followed.run()
    assert run.rounds == [] and run.config == {} and run.summary == {} and run.files == ()
    assert len(run.notes) == 4 and all("leads outside" in note for note in run.notes)
    folders = Folders([root / "watched"])
    folders.look()
    assert list(folders.runs) == ["run"]


def test_runs_are_found_below_a_folder_as_they_appear(root):
    folders = Folders([root / "runs"])
    assert not folders.look() and folders.runs == {}
    write_run(root / "runs" / "one")
    write_run(root / "runs" / "sweep" / "seed_0")
    assert folders.look() and set(folders.runs) == {"one", "sweep/seed_0"}
    write_run(root / "runs" / "two")
    assert folders.look() and set(folders.runs) == {"one", "sweep/seed_0", "two"}
    assert not folders.look()


def test_equal_names_are_told_apart(root):
    for top in ("a", "b"):
        write_run(root / top / "run")
    folders = Folders([root / "a", root / "b" / "run", root / "b"])
    folders.look()
    assert set(folders.runs) == {"run", "run (2)"}


def test_only_so_many_runs_are_followed(root, monkeypatch):
    monkeypatch.setattr("srl_train.metrics.live.folders.MOST_RUNS", 2)
    for name in "abc":
        write_run(root / name)
    folders = Folders([root])
    folders.look()
    assert len(folders.runs) == 2 and folders.left_out == 1


def test_newer_runs_take_the_place_of_older_ones(root, monkeypatch):
    monkeypatch.setattr("srl_train.metrics.live.folders.MOST_RUNS", 2)
    folders = Folders([root])
    for second, name in enumerate("abc"):
        os.utime(write_run(root / name), (second, second))
        folders.look()
    assert set(folders.runs) == {"b", "c"} and folders.left_out == 1
    os.utime(root / "a", (9, 9))
    assert folders.look() and set(folders.runs) == {"a", "c"}
    assert not folders.look() and folders.left_out == 1


@pytest.mark.parametrize("name", ["\x1b[2J", "two\nlines", "\u202e", "\udcff"])
def test_a_run_is_found_by_the_name_that_the_page_shows(root, name):
    write_run(root / name, rows=[row(0)])
    folders = Folders([root])
    folders.look()
    [(shown, followed)] = folders.runs.items()
    assert shown.isprintable() and followed.refresh()
    [runs] = plain(overview({shown: followed.run()}, [root], 0))["blocks"]
    assert runs["runs"][0]["name"] == shown


@pytest.mark.skipif(os.name != "posix", reason="rights of files")
def test_a_folder_that_may_not_be_looked_into_hides_no_other(root, monkeypatch):
    write_run(root / "mine")
    write_run(root / "theirs")
    stat = os.stat

    def refused(path, *more, **options):
        if "theirs/" in os.fspath(path):
            raise PermissionError(13, "Permission denied", path)
        return stat(path, *more, **options)

    monkeypatch.setattr(os, "stat", refused)  # the tests may run as root, whom no rights stop
    folders = Folders([root])
    folders.look()
    assert list(folders.runs) == ["mine"]


FILES = (
    "metrics.jsonl",
    "playing.jsonl",
    "config.yaml",
    "summary.json",
    "episodes/round_00040.jsonl",
)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", ["circle", "pipe", "folder", "nowhere", "endless"])
def test_what_is_no_plain_file_ends_nothing(root, name, kind):
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
    assert [one.name for one in run.files] == ["round_00000.jsonl", "round_00039.jsonl"]
    assert run.rounds == ([] if name == "metrics.jsonl" else [0])
    assert of_run("run", run, interactions(run)).sections


def test_documents_of_odd_records_are_json_still(root):
    """Records are anybody's: the page of a run says what it can."""
    huge = {"rollout": 1e99, "train": -1e99}
    folder = write_run(root / "run", rows=[row(0) | {"seconds": huge}], told=config(rounds=1e99))
    (folder / "episodes" / "round_x.jsonl").write_text("nothing")
    (folder / "summary.json").write_text('{"warnings": ["\\u001b[2J<script>"], "evaluation": 3}')
    followed = follower(folder)
    followed.refresh()
    page = to_json(of_run("run", followed.run()))
    assert "evaluation is 3" in page and "\\u001b" not in page
    assert "\\u003cscript" in to_json(overview({"<script>": followed.run()}, [root], 0))
