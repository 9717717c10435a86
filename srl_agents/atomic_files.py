"""Atomic file writes."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any


@contextmanager
def whole_file(path: Path, mode: str = "w") -> Iterator[IO[Any]]:
    """Yield an open file whose content replaces the file at `path` at the end of the block.

    `mode` is "w" (UTF-8 text) or "wb". Missing folders are created. The content is first written to
    a temporary file in the same folder. After an error in the block, the temporary file is removed
    and `path` is unchanged. A symbolic link at `path` is replaced, not followed. Raises OSError if
    the file cannot be written, or `path` is a device or pipe.
    """
    if path.is_char_device() or path.is_block_device() or path.is_fifo():
        raise OSError(errno.EINVAL, "no file may replace a device or a pipe", str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name[:100]}.{secrets.token_hex(8)}.partial")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(partial, flags | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with open(descriptor, mode, encoding=None if "b" in mode else "utf-8") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:  # also KeyboardInterrupt
        partial.unlink(missing_ok=True)
        raise
