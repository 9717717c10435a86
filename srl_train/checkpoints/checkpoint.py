"""Checkpoints: folders written atomically and verified on loading.

    round_00000012/
      models/model_0.safetensors ...   named tensors, one file per stem
      state.json  state.safetensors    counters, generators, schedulers, strategy state
      metadata.json                    what a person or a list wants to know
      manifest.json                    size and SHA-256 of every file above; written last

A checkpoint is written into a hidden folder beside its place, brought to the disk, and renamed.
Whatever moment a process is killed at, the folder holds complete checkpoints and hidden leftovers,
which the next save clears. One process may save into a folder at a time; any number may read.
Nothing is pickled.
"""

from __future__ import annotations

import json
import logging
import math
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from srl_envs.errors import DocumentError
from srl_envs.untrusted import read_bytes, read_json
from srl_train.checkpoints.manifest import (
    has_all_files,
    is_inside,
    read_manifest,
    seal,
    to_disk,
    verify,
)
from srl_train.checkpoints.tensor_tree import join_tensors, split_tensors
from srl_train.errors import CheckpointError, CheckpointNotFound

log = logging.getLogger(__name__)
_DESCRIBED = ("manifest.json", "metadata.json", "state.json")
LARGEST_STATE = 2**30
"""Bytes of state.json, which holds the samples that wait in buffers."""
_SAVING, _REPLACED, _REMOVED = ".saving.", ".replaced.", ".removed."


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint whose every file was found as it was written, tensors as far as sizes tell."""

    path: Path
    """Its folder."""
    checkpoint_id: str
    round: int
    state: Any
    """As it was given to `save`, tensors, tuples and integer keys included."""
    metadata: Mapping[str, Any]

    def tensors(self, stem: str) -> dict[str, Tensor]:
        """Name -> tensor (on the CPU) of 'models/model_0' and the like.

        Raises CheckpointError if the checkpoint has no such file.
        """
        return _tensors_in(self.path / f"{stem}.safetensors")

    def unusable(self, why: str) -> CheckpointError:
        """What is raised where a run cannot go on from it."""
        return CheckpointError(f"{why}: remove {self.path} to go on from the checkpoint before it")


def checkpoint_name(round: int, final: bool = False) -> str:
    """'round_00000012', for the last one of a run 'final_round_00000012'."""
    return f"{'final_' if final else ''}round_{round:08d}"


def save(
    directory: Path,
    checkpoint_id: str,
    *,
    tensors: Mapping[str, Mapping[str, Tensor]],
    state: Any,
    metadata: Mapping[str, Any],
) -> Path:
    """Write a checkpoint, whole or not at all, and return its folder.

    tensors: stem ('models/model_0', 'optimizers/model_0') -> name -> tensor.
    state: nested mappings, lists, tuples, numbers, text and tensors (see `split_tensors`).
    metadata: JSON-able, with the number of the "round"; "checkpoint_id" and "timestamp" (UTC, ISO)
    are added. Numbers that are not finite become null.

    A checkpoint of the same id is replaced; a kill in between leaves the old or the new one.
    Raises CheckpointError for a state that cannot be written, and for an id or stem that leads out
    of the folder.
    """
    for name in (checkpoint_id, *tensors):
        if not is_inside(name):
            raise CheckpointError(f"a checkpoint's names stay in its folder, got {name!r}")
    state_tensors, plain = split_tensors(state)
    described = {
        "checkpoint_id": checkpoint_id,
        "timestamp": datetime.now(UTC).isoformat(timespec="seconds"),
        **metadata,
    }
    texts = {
        "state.json": json.dumps(plain),
        "metadata.json": json.dumps(finite(described), indent=2),
    }

    directory.mkdir(parents=True, exist_ok=True)
    _clear_leftovers(directory)
    partial = directory / f"{_SAVING}{checkpoint_id}"
    partial.mkdir()
    try:
        for stem, named in (*tensors.items(), ("state", state_tensors)):
            _write_tensors(partial / f"{stem}.safetensors", named)
        for name, text in texts.items():
            (partial / name).write_text(text, encoding="utf-8")
        sequences = (manifest["sequence"] for _, manifest in _complete(directory).values())
        seal(
            partial,
            checkpoint_id=checkpoint_id,
            round=metadata["round"],
            sequence=1 + max(sequences, default=0),
        )
        _put_in_place(partial, directory, checkpoint_id)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return directory / checkpoint_id


def load(path: Path) -> Checkpoint:
    """The checkpoint in a folder, after every file of it was checked: JSON byte by byte, tensors by
    their size and format (`check` reads those byte by byte as well).

    Raises CheckpointNotFound if there is none, and CheckpointError naming the first file that is
    missing or differs from what was written.
    """
    found = find(path.parent, path.name)
    manifest = check(found)
    # A state holds what it holds, infinities and large buffers among it.
    plain = _read(found / "state.json", constants=True)
    tensors = _tensors_in(found / "state.safetensors")
    try:
        state = join_tensors(tensors, plain)
    except (LookupError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{found / 'state.json'} is no state as this release writes it: {error!r:.200}"
        ) from error
    return Checkpoint(
        path=found,
        checkpoint_id=manifest["checkpoint_id"],
        round=manifest["round"],
        state=state,
        metadata=_mapping(found / "metadata.json"),
    )


def check(folder: Path, *, every_byte: bool = False) -> dict[str, Any]:
    """The manifest of the checkpoint in this folder, whose files are there as it says; with
    `every_byte` also the bytes of tensors are as they were written. Raises CheckpointError."""
    manifest = read_manifest(folder)
    for name in manifest["files"]:
        verify(folder, name, manifest, every_byte=every_byte)
    return manifest


def list_checkpoints(directory: Path) -> list[str]:
    """Ids of the complete checkpoints, the newest first.

    Newest is what was saved last. In a run that is the highest round; after a return to an earlier
    checkpoint the run goes on from there, and its saves are newer than the abandoned higher rounds.
    """
    complete = _complete(directory)
    return sorted(complete, key=lambda name: (complete[name][1]["sequence"], name), reverse=True)


def not_whole(directory: Path) -> list[Path]:
    """Folders of checkpoints that lack a file, or whose manifest cannot be read: none of them is
    listed, and a run goes on from the newest one that is."""
    whole = {path for path, _ in _complete(directory).values()}
    return [
        path
        for path in sorted(directory.glob("[!.]*"))
        if path not in whole and any((path / name).exists() for name in _DESCRIBED)
    ]


def warn_of_those_not_whole(directory: Path) -> None:
    """Log, each in a line, which checkpoints the newest whole one is read in place of."""
    for folder in not_whole(directory):
        log.warning("passed over, for it is not whole: %s (remove it)", folder)


def load_metadata(directory: Path, checkpoint_id: str) -> dict[str, Any]:
    """What metadata.json says, without reading the rest; errors as `load`."""
    found = find(directory, checkpoint_id)
    verify(found, "metadata.json", read_manifest(found))
    return _mapping(found / "metadata.json")


def _read(file: Path, *, constants: bool = False) -> Any:
    try:
        content = read_bytes(file, LARGEST_STATE)
        return read_json(content, max_bytes=LARGEST_STATE, constants=constants)
    except DocumentError as error:
        raise CheckpointError(f"{file} cannot be read: {error}") from error


def _tensors_in(file: Path) -> dict[str, Tensor]:
    try:
        loaded: dict[str, Tensor] = load_file(file)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{file} cannot be read: {error}") from error
    return loaded


def _mapping(file: Path) -> dict[str, Any]:
    found = _read(file)
    if not isinstance(found, dict):
        raise CheckpointError(f"{file} holds a {type(found).__name__}, not a mapping")
    return found


def prune(directory: Path, keep: int) -> list[str]:
    """Remove all but the newest `keep` checkpoints and return the ids removed; -1 keeps all."""
    if keep == -1:
        return []
    old = list_checkpoints(directory)[keep:]
    complete = _complete(directory)
    for name in old:
        removed = directory / f"{_REMOVED}{name}"
        shutil.rmtree(removed, ignore_errors=True)  # of a prune that was killed
        complete[name][0].rename(removed)  # gone at once; the deleting may take its time
        shutil.rmtree(removed)
    return old


def _complete(directory: Path) -> dict[str, tuple[Path, dict[str, Any]]]:
    """Id -> (folder, manifest) of each checkpoint that has all its files."""
    if not directory.is_dir():
        return {}
    found = {}
    # Sorted: '.replaced.x' comes before 'x', which takes its place where both exist.
    for path in sorted(directory.iterdir()):
        name = path.name.removeprefix(_REPLACED)
        if name.startswith(".") or not path.is_dir():
            continue
        try:
            manifest = read_manifest(path)
        except CheckpointError:
            continue
        if has_all_files(path, manifest):
            found[name] = (path, manifest)
    return found


def find(directory: Path, checkpoint_id: str) -> Path:
    """Return the checkpoint's folder, which is in `directory`. Raises CheckpointNotFound."""
    there = {path.name: path for path in directory.glob("*") if path.is_dir()}
    for name in (checkpoint_id, f"{_REPLACED}{checkpoint_id}"):
        if name in there:
            return there[name]
    available = ", ".join(list_checkpoints(directory)) or "none"
    raise CheckpointNotFound(
        f"Checkpoint not found: {checkpoint_id:.200} in {directory}; available: {available}"
    )


def _put_in_place(partial: Path, directory: Path, checkpoint_id: str) -> None:
    target, replaced = directory / checkpoint_id, directory / f"{_REPLACED}{checkpoint_id}"
    if target.exists():  # a folder cannot be renamed onto another; readers know both names
        target.rename(replaced)
    partial.rename(target)
    to_disk(directory)
    shutil.rmtree(replaced, ignore_errors=True)


def _clear_leftovers(directory: Path) -> None:
    """Finish what a killed save or prune left half done."""
    for path in sorted(directory.iterdir()):
        if path.name.startswith((_SAVING, _REMOVED)):
            shutil.rmtree(path)
        elif path.name.startswith(_REPLACED):
            target = directory / path.name.removeprefix(_REPLACED)
            if target.exists():
                shutil.rmtree(path)
            else:
                path.rename(target)


def _write_tensors(file: Path, named: Mapping[str, Tensor]) -> None:
    written: dict[str, Tensor] = {}
    storages: set[int] = set()
    for name, tensor in named.items():
        kept = tensor.detach().cpu().contiguous()
        storage = kept.untyped_storage().data_ptr()
        if storage in storages:  # tied weights, views: safetensors wants each on its own
            kept = kept.clone()
        storages.add(storage)
        written[name] = kept
    file.parent.mkdir(exist_ok=True)
    save_file(written, file)


def finite(value: Any) -> Any:
    """Return the value with None for NaN and infinities, which JSON cannot hold."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [finite(entry) for entry in value]
    return value
