"""File stores of agents: in memory, or in a folder that no file name leads out of.

File names are relative, of letters, digits and `._-`, with parts joined by `/`. Other names are
refused before any file access. In a folder, every part is opened relative to the folder before it
and without following links, and only regular files without hard links are opened.
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
from srl_envs.tasks.tool_use.tools import ToolError

LARGEST_FILE = 16_384  # bytes
MOST_FILES = 64
DEEPEST = 4  # parts of a name
LONGEST_PART = 64  # characters

_PART = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")


class FileStore(Protocol):
    """File store. All methods raise ToolError for missing files and names that are not allowed."""

    def read(self, path: str) -> str:
        """Return the text of a file."""
        ...

    def write(self, path: str, content: str) -> None:
        """Create a file, or replace it."""
        ...

    def names(self) -> list[str]:
        """Return the names of all files, sorted."""
        ...


def parts_of(path: str) -> list[str]:
    """Return the parts of a file name; raise ToolError for names that are not allowed."""
    parts = path.split("/")
    if len(parts) > DEEPEST or not all(
        _PART.fullmatch(part) and len(part) <= LONGEST_PART for part in parts
    ):
        raise ToolError(
            f"{path[:40]!r} is no file name here: letters, digits and ._-, folders joined by /, "
            "not absolute and without '..'"
        )
    return parts


def _encoded(content: str) -> bytes:
    data = content.encode("utf-8", "backslashreplace")
    if len(data) > LARGEST_FILE:
        raise ToolError(f"a file may have {LARGEST_FILE} bytes, this one would have {len(data)}")
    return data


class MemoryFiles:
    """Files in memory, without access to the machine."""

    def __init__(self, files: Mapping[str, str] | None = None) -> None:
        self._files: dict[str, str] = {}
        for path, content in (files or {}).items():
            self.write(path, content)

    def read(self, path: str) -> str:
        """Return the text of a file."""
        parts_of(path)
        if path not in self._files:
            raise ToolError(f"there is no file {path!r}")
        return self._files[path]

    def write(self, path: str, content: str) -> None:
        """Create a file, or replace it."""
        parts_of(path)
        data = _encoded(content)
        if path not in self._files:
            if len(self._files) >= MOST_FILES:
                raise ToolError(f"there may be {MOST_FILES} files")
            if any(
                f"{path}/".startswith(f"{other}/") or other.startswith(f"{path}/")
                for other in self._files
            ):
                raise ToolError(f"{path!r} cannot be both a file and a folder")
        self._files[path] = data.decode()

    def names(self) -> list[str]:
        """Return the names of all files, sorted."""
        return sorted(self._files)


class JailedFolder:
    """Files in an existing folder of this machine.

    Raises:
        EnvConfigError: The folder does not exist, or the system has no openat.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        if os.open not in os.supports_dir_fd or not hasattr(os, "O_NOFOLLOW"):
            raise EnvConfigError("a jailed folder needs openat: keep the files in memory instead")
        if not self.folder.is_dir():
            raise EnvConfigError(f"there is no folder {str(self.folder)!r}: make it first")

    def read(self, path: str) -> str:
        """Return the text of a file."""
        with self._opened(path, "rb") as file:
            data = file.read(LARGEST_FILE + 1)
        if len(data) > LARGEST_FILE:
            raise ToolError(f"{path!r} is too large: a file may have {LARGEST_FILE} bytes")
        return data.decode("utf-8", "replace")

    def write(self, path: str, content: str) -> None:
        """Create a file, or replace it."""
        parts_of(path)
        data = _encoded(content)
        known = self.names()
        if path not in known and len(known) >= MOST_FILES:
            raise ToolError(f"there may be {MOST_FILES} files")
        with self._opened(path, "wb") as file:
            file.truncate(0)
            file.write(data)

    def names(self) -> list[str]:
        """Return the names of all regular files with allowed names, sorted."""
        found = []
        folder = self.folder.resolve()
        for parent, folders, files, place in os.fwalk(folder):
            parts = Path(parent).relative_to(folder).parts
            deeper = len(parts) + 1 < DEEPEST
            folders[:] = [name for name in folders if deeper and _PART.fullmatch(name)]
            for name in filter(_PART.fullmatch, files):
                with contextlib.suppress(OSError):  # A file may disappear in between.
                    if _is_plain(os.stat(name, dir_fd=place, follow_symlinks=False)):
                        found.append("/".join((*parts, name)))
        return sorted(found)

    def __reduce__(self) -> Any:
        """Copy the files to a new folder: a copied episode shares no files with its original."""
        if not self.folder.is_dir():  # The episode is over, and its folder was removed.
            return MemoryFiles, ()
        return new_folder, (self.folder.parent, {name: self.read(name) for name in self.names()})

    @contextlib.contextmanager
    def _opened(self, path: str, mode: str) -> Iterator[IO[bytes]]:
        """Open a file; with mode "wb", create the file and its folders.

        System errors become ToolErrors without any information on the machine.
        """
        *folders, name = parts_of(path)
        flags = os.O_RDONLY if mode == "rb" else os.O_WRONLY | os.O_CREAT
        with contextlib.ExitStack() as descriptors:

            def opened(part: str | Path, flags: int, place: int | None) -> int:
                descriptor = os.open(part, flags, 0o600, dir_fd=place)
                descriptors.callback(os.close, descriptor)
                return descriptor

            try:
                place = opened(self.folder, os.O_RDONLY | os.O_DIRECTORY, None)
                for part in folders:
                    if mode == "wb":
                        with contextlib.suppress(FileExistsError):
                            os.mkdir(part, 0o700, dir_fd=place)
                    place = opened(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, place)
                descriptor = opened(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK, place)
                if not _is_plain(os.fstat(descriptor)):
                    raise ToolError(f"{path!r} is no regular file")
                with open(descriptor, mode, closefd=False) as file:
                    yield file
            except FileNotFoundError:
                raise ToolError(f"there is no file {path!r}") from None
            except OSError:
                raise ToolError(f"{path!r} is no file that may be opened") from None


def new_folder(
    parent: str | os.PathLike[str], files: Mapping[str, str] | None = None
) -> JailedFolder:
    """Create a folder with files in `parent`."""
    made = JailedFolder(tempfile.mkdtemp(prefix="agent-", dir=parent))
    for path, content in (files or {}).items():
        made.write(path, content)
    return made


def _is_plain(found: os.stat_result) -> bool:
    return stat.S_ISREG(found.st_mode) and found.st_nlink == 1
