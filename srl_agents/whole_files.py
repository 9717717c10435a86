"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any


@contextmanager
def whole_file(path: Path, mode: str = "w") -> Iterator[IO[Any]]:
    """`path` to write to, text in UTF-8 or with mode "wb" bytes; its folder is made.

    What is written goes to a temporary file beside it, which takes its place, on the disk, at the
    end. Where something fails, nothing of it is left and what was there before stays.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    try:
        with partial.open(mode, encoding=None if "b" in mode else "utf-8") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:  # a full disk, what could not be made, or a person who interrupts
        partial.unlink(missing_ok=True)
        raise
