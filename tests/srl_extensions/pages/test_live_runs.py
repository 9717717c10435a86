"""Run folders of the live page: growing files, thinning, and links out of the root."""

import json
import os

import pytest

from srl_extensions.pages import live_runs
from srl_extensions.pages.live_document import of_run
from srl_extensions.pages.live_runs import WatchedRun, find_runs, open_beneath
from srl_extensions.pages.run_folder import load
from srl_train.errors import RunFolderError
from srl_train.metrics.sinks import JsonlSink
from tests.srl_extensions.pages.synthetic_runs import row, stage_row, write_run


@pytest.fixture
def root(tmp_path):
    return tmp_path.resolve()


def watched(folder):
    """Return the run in the folder after a first read."""
    run = WatchedRun(folder, folder.parent)
    run.refresh()
    return run


def test_links_out_of_the_root_and_pipes_are_refused(tmp_path):
    root = tmp_path.resolve() / "root"
    (root / "inner").mkdir(parents=True)
    (root.parent / "secret").write_text("secret")
    (root / "own").write_text("own")
    (root / "out").symlink_to(root.parent / "secret")
    (root / "up").symlink_to(root.parent)
    (root / "link").symlink_to(root / "own")
    os.mkfifo(root / "pipe")
    for name in ("out", "up/secret", "link", "pipe", "inner"):
        with pytest.raises((OSError, RunFolderError)):
            open_beneath(root / name, root)
    with open_beneath(root / "own", root) as file:
        assert file.read() == b"own"


@pytest.mark.parametrize("swapped", ["", "run", "run/episodes", "run/episodes/file"])
def test_component_replaced_by_a_link_is_refused(tmp_path, swapped):
    root, outside = tmp_path.resolve() / "root", tmp_path.resolve() / "outside"
    for top, content in ((root, "own"), (outside, "secret")):
        (top / "run" / "episodes").mkdir(parents=True)
        (top / "run" / "episodes" / "file").write_text(content)
    (root / swapped).rename(tmp_path / "away")
    (root / swapped).symlink_to(outside / swapped)
    with pytest.raises(OSError):
        open_beneath(root / "run" / "episodes" / "file", root)


def test_long_runs_are_thinned(root, monkeypatch):
    monkeypatch.setattr(live_runs, "MOST_ROWS", 8)
    rows = [row(number) for number in range(21)]
    folder = write_run(root / "run", rows=rows)
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"round": 21, "envir')
    run = watched(folder).record
    assert run.rounds == [0, 4, 8, 12, 16, 20]


def test_a_watched_run_equals_a_loaded_run(root):
    folder = write_run(root / "run", stage_rows=[stage_row(0, "sft", 0), stage_row(1, "sft", 1)])
    run = watched(folder)
    assert run.record.rows == load(folder).rows and run.record.stages == load(folder).stages
    record = run.record
    run.refresh()
    assert run.problems == [] and run.record is record


def test_new_and_resumed_rounds_are_read(root):
    folder = write_run(root / "run", rows=[row(0), row(1)])
    run = watched(folder)
    for number, expected in ((2, [0, 1, 2]), (1, [0, 1])):
        sink = JsonlSink(folder / "metrics.jsonl", resume_from_round=number)
        sink.write(row(number))
        sink.close()
        with (folder / "metrics.jsonl").open("a") as file:
            file.write('{"round": 4, "envir')
        run.refresh()
        assert run.record.rounds == expected


def test_live_page_names_the_damaged_line(root):
    folder = write_run(root / "run", rows=[row(0)])
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(f"no json\n{json.dumps(row(2))}\n")
    run = watched(folder)
    assert run.record is None
    [notes] = of_run("run", run).blocks
    assert "line 2 is damaged" in notes.lines[0]


@pytest.mark.parametrize("name", ["metrics.jsonl", "config.yaml", "summary.json"])
def test_links_out_of_the_folder_are_refused(root, name):
    elsewhere = write_run(root / "elsewhere" / "run")
    folder = write_run(root / "watched" / "run")
    (folder / name).rename(root / "away")
    (folder / name).symlink_to(elsewhere / name)
    (root / "watched" / "other").symlink_to(elsewhere)
    run = watched(folder)
    assert run.record is None and name in run.problems[0]
    assert list(find_runs([root / "watched"])) == ["run"]


@pytest.mark.parametrize("name", ["metrics.jsonl", "playing.jsonl", "config.yaml", "summary.json"])
@pytest.mark.parametrize("kind", ["circle", "pipe", "folder", "endless"])
def test_special_files_are_refused(root, name, kind):
    folder = write_run(root / "run", rows=[row(0)])
    path = folder / name
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to({"circle": path.name, "endless": "/dev/zero"}[kind])
    run = watched(folder)
    assert len(run.problems) == 1
    assert of_run("run", run).blocks


def test_runs_are_found_below_a_folder_as_they_appear(root, monkeypatch):
    assert find_runs([root / "runs"]) == {}
    write_run(root / "runs" / "one", rows=[])
    write_run(root / "runs" / "sweep" / "seed_0", rows=[])
    assert set(find_runs([root / "runs"])) == {"one", "sweep/seed_0"}
    monkeypatch.setattr(live_runs, "MOST_RUNS", 2)
    write_run(root / "runs" / "two", rows=[])
    assert len(find_runs([root / "runs"])) == 2
