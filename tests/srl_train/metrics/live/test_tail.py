"""A growing file is read line by line, whatever becomes of it, and nothing outside its root."""

import os

import pytest

from srl_train.metrics.errors import RunFolderError
from srl_train.metrics.live import tail
from srl_train.metrics.live.tail import Tail, open_inside


@pytest.fixture
def path(tmp_path):
    return tmp_path.resolve() / "metrics.jsonl"


def test_only_new_whole_lines_are_given(path):
    followed = Tail(path, path.parent)
    assert followed.read() == (False, [])
    path.write_bytes(b"one\ntw")
    assert followed.read() == (False, [b"one"])
    with path.open("ab") as file:
        file.write(b"o\nthree\n")
    assert followed.read() == (False, [b"two", b"three"])
    assert followed.read() == (False, [])


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
def test_a_file_written_anew_is_read_from_its_beginning(path, again):
    followed = Tail(path, path.parent)
    path.write_bytes(b"old\nolder\n")
    followed.read()
    again(path)
    anew, lines = followed.read()
    assert anew and lines[0] == b"1"


def test_a_file_that_goes_and_comes_back_is_read_again(path):
    followed = Tail(path, path.parent)
    path.write_bytes(b"one\n")
    followed.read()
    path.unlink()
    assert followed.read() == (True, [])
    assert followed.read() == (False, [])
    path.write_bytes(b"one\n")
    assert followed.read()[1] == [b"one"]


def test_a_folder_replaced_by_a_link_after_the_check_is_not_followed(tmp_path, monkeypatch):
    root, outside = tmp_path.resolve() / "runs", tmp_path.resolve() / "outside"
    for folder in (root / "run" / "episodes", outside / "episodes"):
        folder.mkdir(parents=True)
        (folder / "one.jsonl").write_text(folder.parent.name)
    path = root / "run" / "episodes" / "one.jsonl"
    with open_inside(path, root) as file:
        assert file.read() == b"run"
    resolve = os.path.realpath

    def resolve_and_swap(given):
        found = resolve(given)
        (root / "run").rename(root / "moved")
        (root / "run").symlink_to(outside)
        return found

    monkeypatch.setattr(tail.os.path, "realpath", resolve_and_swap)
    with pytest.raises(NotADirectoryError):
        open_inside(path, root)


def test_a_line_too_long_is_left_out_and_counted(path, monkeypatch):
    monkeypatch.setattr(tail, "CHUNK", 8)
    path.write_bytes(b"a\n" + b"x" * 50 + b"\nb\n")
    followed, lines = Tail(path, path.parent), []
    for _ in range(12):
        lines += followed.read()[1]
    assert lines == [b"a", b"b"] and followed.left_out == 1


def test_links_lead_nowhere_outside_and_pipes_hold_nobody_up(tmp_path):
    root = tmp_path.resolve() / "root"
    (root / "inner").mkdir(parents=True)
    (root.parent / "secret").write_text("secret")
    (root / "own").write_text("own")
    (root / "out").symlink_to(root.parent / "secret")
    (root / "up").symlink_to(root.parent)
    (root / "inner" / "link").symlink_to(root / "own")
    os.mkfifo(root / "pipe")
    for name in ("out", "up/secret", "../secret", "pipe", "inner"):
        with pytest.raises((RunFolderError, IsADirectoryError)):
            open_inside(root / name, root)
    with open_inside(root / "inner" / "link", root) as file:
        assert file.read() == b"own"
