"""File store of an agent: in memory, or jailed in a folder.

Names are relative, of letters, digits and `._-`, parts joined by `/`; `..`, absolute names and
everything else are refused before any file is looked at. In a folder every part of the way is
opened by itself, from the folder before it and without following links (openat, O_NOFOLLOW), so
that neither a link nor a folder that is swapped for one leads outside; and only regular files with
one name are opened, so neither devices nor pipes nor hard links.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Protocol

from srl_envs.errors import EnvConfigError
from srl_envs.tasks.tool_use.errors import ToolError

LARGEST_FILE = 16_384  # bytes
MOST_FILES = 64
DEEPEST = 4  # parts of a name
LONGEST_PART = 64  # characters

_PART = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_FOLDER = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_DIRECTORY", 0)


class FileStore(Protocol):
    """File store. All methods raise ToolError for what does not exist or is not allowed."""

    def read(self, path: str) -> str:
        """A file's text."""
        ...

    def write(self, path: str, content: str) -> None:
        """Make a file, or replace it."""
        ...

    def names(self) -> list[str]:
        """All files, sorted."""
        ...


def parts_of(path: str) -> tuple[str, ...]:
    """The parts of an allowed name; raises ToolError for any other."""
    parts = tuple(path.split("/"))
    if len(parts) > DEEPEST or not all(
        _PART.fullmatch(part) and len(part) <= LONGEST_PART for part in parts
    ):
        raise ToolError(
            f"{path[:40]!r} is no file name here: letters, digits and ._-, folders joined by /, "
            "not absolute and without '..'"
        )
    return parts


def _checked(content: str) -> bytes:
    data = content.encode("utf-8", "backslashreplace")
    if len(data) > LARGEST_FILE:
        raise ToolError(f"a file may have {LARGEST_FILE} bytes, this one would have {len(data)}")
    return data


class MemoryFiles:
    """Files that exist only here: nothing on the machine can be reached."""

    def __init__(self, files: Mapping[str, str] | None = None) -> None:
        self._files: dict[tuple[str, ...], str] = {}
        for path, content in (files or {}).items():
            self.write(path, content)

    def read(self, path: str) -> str:
        """A file's text; raises ToolError where there is none."""
        parts = parts_of(path)
        if parts not in self._files:
            raise ToolError(f"there is no file {path!r}")
        return self._files[parts]

    def write(self, path: str, content: str) -> None:
        """Make a file, or replace it; raises ToolError where that is not allowed."""
        parts = parts_of(path)
        data = _checked(content)
        if parts not in self._files:
            if len(self._files) >= MOST_FILES:
                raise ToolError(f"there may be {MOST_FILES} files")
            if any(parts[:size] in self._files for size in range(1, len(parts))) or any(
                known[: len(parts)] == parts for known in self._files
            ):
                raise ToolError(f"{path!r} cannot be both a file and a folder")
        self._files[parts] = data.decode()

    def names(self) -> list[str]:
        """All files, sorted."""
        return sorted("/".join(parts) for parts in self._files)


class JailedFolder:
    """Files in a folder of this machine, which nothing leads out of.

    The folder must exist; whoever runs the environment may trust its own path. Raises
    EnvConfigError where it does not, and on systems without openat.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        if os.open not in os.supports_dir_fd or not hasattr(os, "O_NOFOLLOW"):
            raise EnvConfigError("a jailed folder needs openat: keep the files in memory instead")
        if not self.folder.is_dir():
            raise EnvConfigError(f"there is no folder {str(self.folder)!r}: make it first")

    def read(self, path: str) -> str:
        """A file's text; raises ToolError where there is none that may be read."""
        *folders, name = parts_of(path)
        with (
            self._inside(folders, path) as place,
            _refusals(path),
            _opened(os.open(name, _READ, dir_fd=place), path, "rb") as file,
        ):
            data = file.read(LARGEST_FILE + 1)
        if len(data) > LARGEST_FILE:
            raise ToolError(f"{path!r} is too large: a file may have {LARGEST_FILE} bytes")
        return data.decode("utf-8", "replace")

    def write(self, path: str, content: str) -> None:
        """Make a file, or replace it; raises ToolError where that is not allowed."""
        *folders, name = parts_of(path)
        data = _checked(content)
        known = self.names()
        if path not in known and len(known) >= MOST_FILES:
            raise ToolError(f"there may be {MOST_FILES} files")
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        with (
            self._inside(folders, path, make=True) as place,
            _refusals(path),
            _opened(os.open(name, flags, 0o600, dir_fd=place), path, "wb") as file,
        ):
            file.truncate(0)
            file.write(data)

    def names(self) -> list[str]:
        """All regular files whose names are allowed, sorted."""
        return sorted(_names(self._place(), ()))

    def __reduce__(self) -> Any:
        """Copy the files to a new folder: a copied episode shares no files with its original."""
        if not self.folder.is_dir():  # The episode is over, and its folder was removed.
            return MemoryFiles, ()
        return new_folder, (self.folder.parent, {name: self.read(name) for name in self.names()})

    def _place(self) -> int:
        return os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)

    @contextlib.contextmanager
    def _inside(self, folders: list[str], path: str, make: bool = False) -> Iterator[int]:
        """A descriptor of the innermost folder, each opened from the one before."""
        place = self._place()
        try:
            for part in folders:
                with _refusals(path):
                    if make:
                        with contextlib.suppress(FileExistsError):
                            os.mkdir(part, 0o700, dir_fd=place)
                    inner = os.open(part, _FOLDER, dir_fd=place)
                os.close(place)
                place = inner
            yield place
        finally:
            os.close(place)


def new_folder(
    parent: str | os.PathLike[str], files: Mapping[str, str] | None = None
) -> JailedFolder:
    """Make a folder in `parent`, with these files in it."""
    made = JailedFolder(tempfile.mkdtemp(prefix="agent-", dir=parent))
    for path, content in (files or {}).items():
        made.write(path, content)
    return made


def _names(place: int, before: tuple[str, ...]) -> Iterator[str]:
    """The files below an open folder, which is closed afterwards."""
    try:
        with os.scandir(place) as entries:
            found = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
        for name, is_folder in found:
            parts = (*before, name)
            if not _PART.fullmatch(name) or len(parts) > DEEPEST:
                continue
            with contextlib.suppress(OSError):  # gone by now, or not ours to look into
                if is_folder:
                    yield from _names(os.open(name, _FOLDER, dir_fd=place), parts)
                elif _is_plain(os.stat(name, dir_fd=place, follow_symlinks=False)):
                    yield "/".join(parts)
    finally:
        os.close(place)


def _is_plain(found: os.stat_result) -> bool:
    return stat.S_ISREG(found.st_mode) and found.st_nlink == 1


def _opened(descriptor: int, path: str, mode: str) -> IO[bytes]:
    """A file for the descriptor, which is looked at before anything is read or changed."""
    if not _is_plain(os.fstat(descriptor)):
        os.close(descriptor)
        raise ToolError(f"{path!r} is no regular file")
    return open(descriptor, mode)


@contextlib.contextmanager
def _refusals(path: str) -> Iterator[None]:
    """What the system refuses, as a ToolError that says nothing about the machine."""
    try:
        yield
    except FileNotFoundError:
        raise ToolError(f"there is no file {path!r}") from None
    except OSError:
        raise ToolError(f"{path!r} is no file that may be opened") from None
