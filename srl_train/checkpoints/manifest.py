"""Manifests: the files of a folder with their sizes and SHA-256 digests.

Sizes are always compared. Digests are compared for JSON or on request, because reading all weights
of a large model takes minutes.
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
"""Format of a checkpoint folder; increased when an older release could misread a newer one."""

_NAME = "manifest.json"


def is_checkpoint(place: Path) -> bool:
    """Return True if the folder is a checkpoint."""
    return (place / _NAME).is_file() and (place / "state.json").is_file()


def seal(folder: Path, **described: Any) -> None:
    """Write the manifest of all files in the folder and sync everything to disk."""
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
    """Read the folder's manifest. Raises CheckpointError if this release cannot read it."""
    file = folder / _NAME
    try:
        manifest = read_json(read_bytes(file))
    except (OSError, DocumentError) as error:
        raise CheckpointError(f"{file} cannot be read ({error}): {_what_to_do(folder)}") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise CheckpointError(
            f"{file} is not of format {FORMAT}: read {folder.name} with the release that wrote it"
        )
    kinds = {"checkpoint_id": str, "round": int, "sequence": int, "files": dict}
    wrong = [name for name, kind in kinds.items() if type(manifest.get(name)) is not kind]
    if not wrong:
        wrong = [
            f"files.{name!r:.80}"
            for name, entry in manifest["files"].items()
            if not isinstance(entry, dict)
            or type(entry.get("bytes")) is not int
            or not isinstance(entry.get("sha256"), str)
            or not is_inside(name)
        ]
    if wrong:
        raise CheckpointError(f"{file}: wrong entries {', '.join(wrong)}: {_what_to_do(folder)}")
    return manifest


def is_inside(name: str) -> bool:
    """Return True if the path, relative to a folder, stays in that folder."""
    path = PurePath(name)
    return (
        bool(path.parts)
        and not path.is_absolute()
        and ".." not in path.parts
        and name.isprintable()  # no file name contains a NUL or a lone surrogate
    )


def has_all_files(folder: Path, manifest: Mapping[str, Any]) -> bool:
    """Return True if every file exists with its size; changed bytes are not detected."""
    files: Mapping[str, Mapping[str, Any]] = manifest["files"]
    try:
        return all((folder / name).stat().st_size == file["bytes"] for name, file in files.items())
    except OSError:
        return False


def verify(
    folder: Path, name: str, manifest: Mapping[str, Any], *, every_byte: bool = False
) -> None:
    """Raise CheckpointError unless the file exists with its size.

    The bytes of JSON files, and with `every_byte` of all files, are compared too.
    """
    file = folder / name
    try:
        there = file.is_file()
    except OSError:  # a name that no file can have
        there = False
    if not there:
        raise CheckpointError(f"{file} is missing: {_what_to_do(folder)}")
    entry = manifest["files"].get(name)
    if every_byte or file.suffix == ".json":
        same = _fingerprint(file) == entry
    else:
        same = entry is not None and file.stat().st_size == entry["bytes"]
    if not same:
        raise CheckpointError(f"{file} is not as it was written: {_what_to_do(folder)}")


def to_disk(path: Path) -> None:
    """Sync a file's bytes or a folder's entries to disk."""
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
