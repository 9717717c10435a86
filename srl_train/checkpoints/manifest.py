"""Manifests: the files of a folder with their sizes and SHA-256 digests.

Sizes are always compared, digests where they are cheap (JSON) or asked for: reading all weights of
a large model once more takes minutes.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any

from srl_envs.errors import DocumentError
from srl_envs.untrusted import read_bytes, read_json
from srl_train.errors import CheckpointError

FORMAT = 2
"""Of a checkpoint's folder; raised when an older release could misread a newer checkpoint."""

_NAME = "manifest.json"


def is_checkpoint(place: Path) -> bool:
    """Whether the folder is a checkpoint's."""
    return (place / _NAME).is_file() and (place / "state.json").is_file()


def seal(folder: Path, **described: Any) -> None:
    """Write the manifest of all files in the folder, and bring everything to the disk."""
    manifest = {
        "format": FORMAT,
        **described,
        "files": {
            file.relative_to(folder).as_posix(): _fingerprint(file)
            for file in sorted(folder.rglob("*"))
            if file.is_file()
        },
    }
    with (folder / _NAME).open("x", encoding="utf-8") as file:
        json.dump(manifest, file, indent=2)
    for path in (*folder.rglob("*"), folder):
        to_disk(path)


def read_manifest(folder: Path) -> dict[str, Any]:
    """The folder's manifest; raises CheckpointError if there is none that this release reads."""
    file = folder / _NAME
    try:
        manifest = read_json(read_bytes(file))
    except (OSError, DocumentError) as error:
        raise CheckpointError(f"{file} cannot be read ({error}): {_what_to_do(folder)}") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise CheckpointError(
            f"{file} is not of format {FORMAT}: read {folder.name} with the release that wrote it"
        )
    if missing := {"checkpoint_id", "round", "sequence", "files"} - manifest.keys():
        raise CheckpointError(f"{file} lacks {', '.join(sorted(missing))}: {_what_to_do(folder)}")
    if not _is_sound(manifest):
        raise CheckpointError(f"{file} is not as this release writes it: {_what_to_do(folder)}")
    return manifest


def _is_sound(manifest: Mapping[str, Any]) -> bool:
    """Whether every entry is of its type, and every file's name leads into the folder."""
    files = manifest["files"]
    if type(manifest["round"]) is not int or type(manifest["sequence"]) is not int:
        return False
    return (
        isinstance(manifest["checkpoint_id"], str)
        and isinstance(files, Mapping)
        and all(
            isinstance(told, Mapping)
            and type(told.get("bytes")) is int
            and isinstance(told.get("sha256"), str)
            and is_inside(name)
            for name, told in files.items()
        )
    )


def is_inside(name: str) -> bool:
    """Return True if the path, relative to a folder, stays in that folder."""
    path = PurePath(name)
    return (
        bool(path.parts)
        and not path.is_absolute()
        and ".." not in path.parts
        and name.isprintable()  # a NUL or a lone surrogate is in no file's name
    )


def has_all_files(folder: Path, manifest: Mapping[str, Any]) -> bool:
    """Whether every file is there with its size: quick, and blind to changed bytes."""
    files: Mapping[str, Mapping[str, Any]] = manifest["files"]
    try:
        return all((folder / name).stat().st_size == file["bytes"] for name, file in files.items())
    except OSError:
        return False


def verify(
    folder: Path, name: str, manifest: Mapping[str, Any], *, every_byte: bool = False
) -> None:
    """Raise CheckpointError unless the file is there with its size; JSON, and with `every_byte` any
    file, byte for byte as it was written."""
    file = folder / name
    try:
        there = file.is_file()
    except OSError:  # no file can have such a name
        there = False
    if not there:
        raise CheckpointError(f"{file} is missing: {_what_to_do(folder)}")
    told = manifest["files"].get(name)
    if every_byte or file.suffix == ".json":
        same = _fingerprint(file) == told
    else:
        same = told is not None and file.stat().st_size == told["bytes"]
    if not same:
        raise CheckpointError(f"{file} is not as it was written: {_what_to_do(folder)}")


def to_disk(path: Path) -> None:
    """Wait until the file's bytes, or the folder's entries, survive a loss of power."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _what_to_do(folder: Path) -> str:
    return f"the checkpoint is damaged, remove {folder} to go on from the one before it"


def _fingerprint(file: Path) -> dict[str, Any]:
    with file.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    return {"bytes": file.stat().st_size, "sha256": digest}
