"""JSON Lines data files: problems, motions, documents."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from srl_envs.errors import DocumentError, EnvConfigError
from srl_envs.loading.untrusted import MAX_BYTES, read_json

Row = TypeVar("Row")


def read_rows(
    path: str | os.PathLike[str], what: str, read: Callable[[Any, int], Row]
) -> list[Row]:
    """`read` of each line's value and number (from 1); empty lines are passed over.

    `what` names the rows, for where the file cannot be read. Raises EnvConfigError with the file
    and the line for what is not JSON within the limits of srl_envs.loading.untrusted, and for what
    `read` refuses by an EnvConfigError.
    """
    rows: list[Row] = []
    number = 0
    try:
        with Path(path).open(encoding="utf-8") as file:
            while line := file.readline(MAX_BYTES + 1):
                number += 1
                if line.strip():
                    rows.append(read(read_json(line), number))
    except (DocumentError, EnvConfigError) as error:
        raise EnvConfigError(f"{path}, line {number}: {error}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise EnvConfigError(f"cannot read the {what} of {path}: {error}") from error
    return rows


def text_of(row: Mapping[str, Any], name: str) -> str:
    """The text that a row holds under a name; raises EnvConfigError where it is none, or blank."""
    value = row.get(name)
    if not isinstance(value, str) or not value.strip():
        raise EnvConfigError(f"{name} must be a text, got {value!r:.40}")
    return value
