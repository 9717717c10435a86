"""Atomic file writes."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any


@contextmanager
def whole_file(path: Path, mode: str = "w") -> Iterator[IO[Any]]:
    """Open `path` for an atomic write: it is replaced at the end of the block, or not at all.

    The content is written to a temporary file in the same folder, which is created if it is
    missing. After an error in the block, an existing file at `path` remains unchanged. Symbolic
    links are not followed; a link at `path` is replaced. `mode` is "w" (UTF-8 text) or "wb".
    """
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
