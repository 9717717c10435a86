"""Tails of files that grow: their new whole lines, and whether they were begun anew.

Nothing outside a root folder is read, whatever links say.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from srl_train.metrics.errors import RunFolderError

CHUNK = 2**20
"""Bytes that are read at once; a longer line is left out."""
REMEMBERED = 64
"""Bytes before the place that was reached, by which a file that was written anew is known."""

FOLDER = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_DIRECTORY
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


def is_inside(path: Path, root: Path) -> bool:
    """Whether the path lies within `root`, a resolved folder, links followed."""
    # Of links in a circle realpath stops, where Path.resolve raises.
    return Path(os.path.realpath(path)).is_relative_to(root)


def open_inside(path: Path, root: Path) -> BinaryIO:
    """The plain file, opened for reading.

    `root` is a resolved folder. Raises RunFolderError for what lies outside it, links followed, and
    for what is no plain file; OSError as the system.
    """
    real = Path(os.path.realpath(path))
    if not real.is_relative_to(root):
        raise RunFolderError(f"{path.name} leads outside {root}: it is not read")
    # A folder may be replaced by a link after the check, so no component is followed again.
    descriptor = os.open(root, FOLDER)
    *folders, name = real.relative_to(root).parts or (".",)
    for part, flags in (*((folder, FOLDER) for folder in folders), (name, FILE)):
        above = descriptor
        try:
            descriptor = os.open(part, flags, dir_fd=above)
        finally:
            os.close(above)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise RunFolderError(f"{path.name} is no plain file: it is not read")
    return os.fdopen(descriptor, "rb")


class Tail:
    """The new whole lines of one file, which need not be there yet, or any more."""

    def __init__(self, path: Path, root: Path) -> None:
        self.path = path
        self._root = root
        self._identity: tuple[int, int] | None = None
        self._offset = 0
        self._before = b""
        self._inside_long_line = False
        self.left_out = 0
        """Lines that were too long."""
        self.written = 0.0
        """When the file was last written to, as time.time() has it."""

    def read(self) -> tuple[bool, list[bytes]]:
        """(whether the file was begun anew since the last call, the whole lines that follow).

        At most CHUNK bytes at a time: ask again until there are none. Raises RunFolderError as
        `open_inside` does.
        """
        try:
            file = open_inside(self.path, self._root)
        except (FileNotFoundError, NotADirectoryError):
            known, self._identity = self._identity is not None, None
            return known, []
        with file:
            status = os.fstat(file.fileno())
            self.written = status.st_mtime
            identity = (status.st_dev, status.st_ino)
            anew = identity != self._identity or status.st_size < self._offset
            if not anew and self._before:
                file.seek(self._offset - len(self._before))
                anew = file.read(len(self._before)) != self._before
            if anew:
                anew = self._identity is not None or self._offset > 0
                self._identity, self._offset, self._before = identity, 0, b""
                self._inside_long_line, self.left_out = False, 0
            file.seek(self._offset)
            return anew, self._lines(file.read(CHUNK))

    def _lines(self, data: bytes) -> list[bytes]:
        """The whole lines of what follows the place that was reached, which moves on."""
        end = data.rfind(b"\n") + 1
        lines = data[:end].split(b"\n")[:-1]
        if self._inside_long_line and lines:
            lines, self._inside_long_line = lines[1:], False
        if not end and len(data) == CHUNK:
            self.left_out += not self._inside_long_line
            self._inside_long_line, end = True, len(data)
        self._offset += end
        if end:
            self._before = data[max(0, end - REMEMBERED) : end]
        return lines
