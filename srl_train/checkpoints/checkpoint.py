"""Checkpoints: folders written atomically and verified on loading.

    round_00000012/
      models/model_0.safetensors ...   named tensors, one file per stem
      state.json  state.safetensors    counters, generators, schedulers, strategy state
      metadata.json                    description for listings
      manifest.json                    size and SHA-256 of every file above; written last

A checkpoint is written into a hidden folder, synced to disk, and renamed. After a kill at any
moment the folder contains complete checkpoints and hidden leftovers, which the next save removes.
One process may save into a folder at a time; any number may read. Nothing is pickled.
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
"""Limit of state.json in bytes; it contains the samples in buffers."""
_SAVING, _REPLACED, _REMOVED = ".saving.", ".replaced.", ".removed."


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint whose files were verified, tensors by their size."""

    path: Path
    checkpoint_id: str
    round: int
    state: Any
    """Argument of `save`, with tensors, tuples and integer keys."""
    metadata: Mapping[str, Any]

    def tensors(self, stem: str) -> dict[str, Tensor]:
        """Load the tensors of a stem such as 'models/model_0' onto the CPU.

        Raises CheckpointError if the checkpoint has no such file.
        """
        return _tensors_in(self.path / f"{stem}.safetensors")

    def unusable(self, why: str) -> CheckpointError:
        """Return the error for a run that cannot resume from this checkpoint."""
        return CheckpointError(f"{why}: remove {self.path} to go on from the checkpoint before it")


def checkpoint_name(round: int, final: bool = False) -> str:
    """Return 'round_00000012', or 'final_round_00000012' for the last checkpoint of a run."""
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

    A checkpoint with the same id is replaced; a kill leaves the old or the new one.

    Args:
        directory: Folder of all checkpoints.
        checkpoint_id: Name of the checkpoint.
        tensors: Stem ('models/model_0', 'optimizers/model_0') to named tensors.
        state: Nested mappings, lists, tuples, numbers, text and tensors.
        metadata: JSON-compatible data with the number of the "round". "checkpoint_id" and
            "timestamp" are added. Numbers that are not finite become null.

    Raises:
        CheckpointError: If the state cannot be written, or a name leads out of the folder.
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
        target, replaced = directory / checkpoint_id, directory / f"{_REPLACED}{checkpoint_id}"
        if target.exists():  # a folder cannot be renamed onto another; readers know both names
            target.rename(replaced)
        partial.rename(target)
        to_disk(directory)
        shutil.rmtree(replaced, ignore_errors=True)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return target


def load(path: Path) -> Checkpoint:
    """Load the checkpoint in a folder after verifying JSON by bytes and tensors by size.

    Raises:
        CheckpointNotFound: If there is no checkpoint.
        CheckpointError: If a file is missing or was changed; the message names the file.
    """
    found = find(path.parent, path.name)
    manifest = check(found)
    plain = _read(found / "state.json", constants=True)
    tensors = _tensors_in(found / "state.safetensors")
    try:
        state = join_tensors(tensors, plain)
    except (LookupError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{found / 'state.json'} is no state of this release: {error!r:.200}"
        ) from error
    return Checkpoint(
        path=found,
        checkpoint_id=manifest["checkpoint_id"],
        round=manifest["round"],
        state=state,
        metadata=_mapping(found / "metadata.json"),
    )


def check(folder: Path, *, every_byte: bool = False) -> dict[str, Any]:
    """Verify all files of a checkpoint, tensors by their size, and return its manifest.

    With `every_byte` the bytes of tensors are compared too. Raises CheckpointError.
    """
    manifest = read_manifest(folder)
    for name in manifest["files"]:
        verify(folder, name, manifest, every_byte=every_byte)
    return manifest


def list_checkpoints(directory: Path) -> list[str]:
    """Return the ids of the complete checkpoints, the last saved first.

    After a return to an earlier checkpoint, new saves precede the abandoned higher rounds.
    """
    complete = _complete(directory)
    return sorted(complete, key=lambda name: (complete[name][1]["sequence"], name), reverse=True)


def warn_of_those_not_whole(directory: Path) -> None:
    """Log a warning for each folder of a checkpoint that is incomplete or cannot be read."""
    whole = {path for path, _ in _complete(directory).values()}
    for path in sorted(directory.glob("[!.]*")):
        if path not in whole and any((path / name).exists() for name in _DESCRIBED):
            log.warning("passed over, for it is not whole: %s (remove it)", path)


def load_metadata(directory: Path, checkpoint_id: str) -> dict[str, Any]:
    """Read metadata.json without the rest; errors as in `load`."""
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
    """Remove all but the newest `keep` checkpoints and return the removed ids; -1 keeps all."""
    old = [] if keep == -1 else list_checkpoints(directory)[keep:]
    complete = _complete(directory)
    for name in old:
        removed = directory / f"{_REMOVED}{name}"
        shutil.rmtree(removed, ignore_errors=True)  # left by a prune that was killed
        complete[name][0].rename(removed)  # deletion is not atomic, renaming is
        shutil.rmtree(removed)
    return old


def _complete(directory: Path) -> dict[str, tuple[Path, dict[str, Any]]]:
    """Return id to (folder, manifest) of each checkpoint that has all its files."""
    if not directory.is_dir():
        return {}
    found = {}
    # Sorted: '.replaced.x' comes before 'x', which replaces it in the result.
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


def _clear_leftovers(directory: Path) -> None:
    """Remove or restore the leftovers of a killed save or prune."""
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
        if storage in storages:  # safetensors refuses tied weights and views
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
