"""Files: what is in the jail can be read and written, and nothing outside it."""

import os
import shutil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srl_envs.errors import EnvConfigError
from srl_envs.tasks.tool_use.file_store import (
    LARGEST_FILE,
    MOST_FILES,
    JailedFolder,
    MemoryFiles,
    parts_of,
)
from srl_envs.tasks.tool_use.tools import ToolError

SECRET = "nobody may read this"


@pytest.fixture
def outside(tmp_path):
    (tmp_path / "secret.txt").write_text(SECRET)
    (tmp_path / "jail").mkdir()
    (tmp_path / "jail_too").mkdir()  # a name that begins like the jail's
    (tmp_path / "jail_too" / "secret.txt").write_text(SECRET)
    return tmp_path


@pytest.fixture(params=["memory", "folder"])
def files(request, outside):
    return MemoryFiles() if request.param == "memory" else JailedFolder(outside / "jail")


def test_written_is_read(files):
    files.write("a.txt", "one")
    files.write("folder/b.txt", "zwei \u00e4\nlines")
    files.write("a.txt", "1")
    assert files.read("a.txt") == "1"
    assert files.read("folder/b.txt") == "zwei \u00e4\nlines"
    assert files.names() == ["a.txt", "folder/b.txt"]


BAD_NAMES = (
    "", ".", "..", "/", "../secret.txt", "../jail_too/secret.txt", "a/../../secret.txt",
    "/etc/passwd", "//etc/passwd", "~/x", "~root", "a//b", "a/", "./a", "a\\..\\b", "C:\\x",
    "a\x00b", "a\nb", "\u202e", "..\u2215x", "%2e%2e/secret.txt", ".hidden", "x" * 65, "a/b/c/d/e",
    "file:///etc/passwd", "/proc/self/environ", "/dev/zero", "a b",
)  # fmt: skip


@pytest.mark.parametrize("name", BAD_NAMES)
def test_names_that_lead_elsewhere_are_refused(files, name):
    with pytest.raises(ToolError, match="no file name"):
        files.read(name)
    with pytest.raises(ToolError, match="no file name"):
        files.write(name, "x")


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(st.text(max_size=20) | st.text(alphabet="./a~\\\x00", max_size=12))
def test_an_allowed_name_stays_inside(name):
    try:
        parts = parts_of(name)
    except ToolError:
        return
    normal = os.path.normpath(os.path.join("/jail", *parts))
    assert normal.startswith("/jail/") and normal == f"/jail/{name}"


def test_links_devices_and_pipes_are_not_followed(outside):
    jail = outside / "jail"
    (jail / "link").symlink_to(outside / "secret.txt")
    (jail / "up").symlink_to(outside)
    (jail / "loop").symlink_to(jail)
    (jail / "zero").symlink_to("/dev/zero")
    (jail / "new").symlink_to(outside / "made.txt")
    os.mkfifo(jail / "pipe")
    os.link(outside / "secret.txt", jail / "hard")
    files = JailedFolder(jail)
    names = ["link", "up/secret.txt", "loop/link", "zero", "new", "pipe", "hard", "up", "loop"]
    for name in names:
        with pytest.raises(ToolError):
            files.read(name)
        with pytest.raises(ToolError):
            files.write(name, "overwritten")
    assert files.names() == []
    assert (outside / "secret.txt").read_text() == SECRET
    assert not (outside / "made.txt").exists()


def test_a_folder_swapped_for_a_link_is_not_entered(outside):
    files = JailedFolder(outside / "jail")
    files.write("folder/secret.txt", "mine")
    shutil.rmtree(outside / "jail" / "folder")
    (outside / "jail" / "folder").symlink_to(outside)
    with pytest.raises(ToolError):
        files.read("folder/secret.txt")
    with pytest.raises(ToolError):
        files.write("folder/secret.txt", "x")
    assert (outside / "secret.txt").read_text() == SECRET


def test_sizes_are_bounded(files):
    with pytest.raises(ToolError, match="bytes"):
        files.write("a", "\u00e4" * (LARGEST_FILE // 2 + 1))
    for number in range(MOST_FILES):
        files.write(f"f{number}", "")
    files.write("f0", "again")
    with pytest.raises(ToolError, match=f"{MOST_FILES} files"):
        files.write("one_more", "")


def test_what_is_not_there_is_said(files):
    with pytest.raises(ToolError, match="there is no file 'a'"):
        files.read("a")
    files.write("a", "x")
    with pytest.raises(ToolError):
        files.write("a/b", "x")  # a is a file
    with pytest.raises(ToolError):
        files.read("a/b")


def test_any_characters_may_be_written(files):
    files.write("a", "\ud800\x00\u202e")
    assert files.read("a") == "\\ud800\x00\u202e"


def test_the_folder_must_exist(tmp_path):
    with pytest.raises(EnvConfigError, match="no folder"):
        JailedFolder(tmp_path / "missing")


def test_no_descriptor_is_left_open(outside):
    files = JailedFolder(outside / "jail")
    files.write("a/b/c", "x")
    before = len(os.listdir("/proc/self/fd"))
    for name in ("a/b/c", "a/x", "b", "a/b"):
        try:
            files.read(name)
        except ToolError:
            files.names()
    assert len(os.listdir("/proc/self/fd")) == before
