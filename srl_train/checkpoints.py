"""Checkpoints: folders that are written atomically and verified when they are loaded.

    round_00000012/
      models/model_0.safetensors ...   named tensors, one file per stem
      state.json  state.safetensors    counters, schedulers, strategy state
      metadata.json                    description for listings
      manifest.json                    size of each file; written last

A checkpoint is written into a hidden folder, synced to disk, and renamed. Only one process may save
into a folder at a time. Nothing is pickled.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from srl_envs.errors import DocumentError
from srl_envs.untrusted import read_bytes, read_json
from srl_train.config.section import one_line
from srl_train.errors import CheckpointError, CheckpointNotFound
from srl_train.run_files import finite

FORMAT = 3
"""Version of the format, which is increased if an older release could misread a newer one."""
LARGEST_STATE = 2**30
"""Maximum size of state.json in bytes. It contains the samples in buffers."""
_MANIFEST = "manifest.json"
_SAVING, _REPLACED, _REMOVED = ".saving.", ".replaced.", ".removed."
_TENSOR, _TUPLE, _PAIRS = "__tensor__", "__tuple__", "__pairs__"
_MARKS = frozenset({_TENSOR, _TUPLE, _PAIRS})


def _inside(name: str) -> str:
    path = PurePath(name)
    # isprintable excludes NUL and lone surrogates, which file names cannot contain.
    if not path.parts or path.is_absolute() or ".." in path.parts or not name.isprintable():
        raise CheckpointError(f"names in checkpoints must be paths inside its folder, got {name!r}")
    return name


class _File(BaseModel):
    model_config = ConfigDict(strict=True)
    bytes: int


class _Manifest(BaseModel):
    model_config = ConfigDict(strict=True)
    format: Literal[3]
    checkpoint_id: str
    round: int
    sequence: int
    files: dict[Annotated[str, AfterValidator(_inside)], _File]


@dataclass(frozen=True)
class Checkpoint:
    """Loaded checkpoint, whose files have the sizes in its manifest."""

    path: Path
    round: int
    state: Any
    """State as passed to `save`, with tensors, tuples and integer keys."""
    metadata: Mapping[str, Any]

    def tensors(self, stem: str) -> dict[str, Tensor]:
        """Read STEM.safetensors, such as 'models/model_0', and return name -> tensor on the CPU.

        Raises CheckpointError if the file cannot be read.
        """
        return _tensors_in(self.path / f"{stem}.safetensors")


def checkpoint_name(round: int, final: bool = False) -> str:
    """Return 'round_00000012' for `round` 12, or 'final_round_00000012' if `final`."""
    return f"{'final_' if final else ''}round_{round:08d}"


def save(
    directory: Path,
    checkpoint_id: str,
    *,
    tensors: Mapping[str, Mapping[str, Tensor]],
    state: Any,
    metadata: Mapping[str, Any],
) -> Path:
    """Write the checkpoint `directory`/`checkpoint_id` atomically, and return its folder.

    A checkpoint with this id is replaced, and leftovers of a killed save are removed. `tensors` is
    file without suffix ('models/model_0') -> its tensors by name. `state` consists of mappings,
    lists, tuples, numbers, text, None and tensors. `metadata` is JSON-compatible data with the
    integer "round"; the id and the time (UTC) are added. Raises CheckpointError if the state
    contains another type, or a name leads out of the folder.
    """
    for name in (checkpoint_id, *tensors):
        _inside(name)
    state_tensors, plain = split_tensors(state)
    timestamp = datetime.now(UTC).isoformat(timespec="seconds")
    described = {"checkpoint_id": checkpoint_id, "timestamp": timestamp, **metadata}
    texts = {"state.json": json.dumps(plain), "metadata.json": json.dumps(finite(described))}

    directory.mkdir(parents=True, exist_ok=True)
    _clear_leftovers(directory)
    partial = directory / f"{_SAVING}{checkpoint_id}"
    partial.mkdir()
    try:
        for stem, named in (*tensors.items(), ("state", state_tensors)):
            _write_tensors(partial / f"{stem}.safetensors", named)
        for name, text in texts.items():
            (partial / name).write_text(text, encoding="utf-8")
        sequences = (manifest.sequence for _, manifest in _complete(directory).values())
        seal(
            partial,
            checkpoint_id=checkpoint_id,
            round=metadata["round"],
            sequence=1 + max(sequences, default=0),
        )
        target, replaced = directory / checkpoint_id, directory / f"{_REPLACED}{checkpoint_id}"
        if target.exists():  # A rename cannot replace a folder. Readers know both names.
            target.rename(replaced)
        partial.rename(target)
        _to_disk(directory)
        shutil.rmtree(replaced, ignore_errors=True)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return target


def load(path: Path) -> Checkpoint:
    """Load the checkpoint in the folder `path`, without the tensors of `Checkpoint.tensors`.

    Raises CheckpointNotFound if the folder does not exist, and CheckpointError, which names the
    file, if a file is missing, unreadable or of another size than in the manifest.
    """
    found = find(path.parent, path.name)
    manifest = _read_manifest(found)
    for name, file in manifest.files.items():
        _check_size(found, name, file)
    plain = _read_json(found / "state.json", constants=True)
    try:
        state = join_tensors(_tensors_in(found / "state.safetensors"), plain)
    except (LookupError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{found / 'state.json'} must be a state of this release: {error!r:.200}"
        ) from error
    return Checkpoint(found, manifest.round, state, load_metadata(path.parent, path.name))


def load_metadata(directory: Path, checkpoint_id: str) -> dict[str, Any]:
    """Return the content of a checkpoint's metadata.json.

    Raises CheckpointNotFound for an unknown id, and CheckpointError if the file is damaged.
    """
    found = find(directory, checkpoint_id)
    metadata = _read_json(found / "metadata.json")
    if not isinstance(metadata, dict):
        raise CheckpointError(f"{found / 'metadata.json'} must contain a mapping")
    return metadata


def list_checkpoints(directory: Path) -> list[str]:
    """Return the ids of the complete checkpoints in a folder, the last saved first.

    A missing folder gives an empty list.
    """
    complete = _complete(directory)
    return sorted(complete, key=lambda name: (complete[name][1].sequence, name), reverse=True)


def prune(directory: Path, keep: int) -> list[str]:
    """Delete all complete checkpoints but the `keep` last saved, and return the deleted ids.

    -1 keeps all, 0 none. Damaged checkpoints are kept.
    """
    old = [] if keep == -1 else list_checkpoints(directory)[keep:]
    for name in old:
        removed = find(directory, name).rename(directory / f"{_REMOVED}{name}")  # It is atomic.
        shutil.rmtree(removed)
    return old


# Files of a checkpoint


def seal(folder: Path, **described: Any) -> None:
    """Write manifest.json with the size of each file in the folder, and sync all files to disk.

    `described` has the other entries of the manifest: checkpoint_id, round, and sequence, which
    increases with each save. Raises FileExistsError if the folder has a manifest.
    """
    files = {
        file.relative_to(folder).as_posix(): {"bytes": file.stat().st_size}
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }
    with (folder / _MANIFEST).open("x", encoding="utf-8") as file:
        json.dump({"format": FORMAT, **described, "files": files}, file, indent=2)
    for path in (*folder.rglob("*"), folder):
        _to_disk(path)


def _to_disk(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _read_manifest(folder: Path) -> _Manifest:
    file = folder / _MANIFEST
    tree = _read_json(file)
    try:
        return _Manifest.model_validate(tree)
    except ValidationError as error:
        raise damaged(
            folder, f"{file} must have format {FORMAT} of this release ({one_line(error, tree)})"
        ) from error


def _read_json(file: Path, *, constants: bool = False) -> Any:
    try:
        content = read_bytes(file, LARGEST_STATE)
        return read_json(content, max_bytes=LARGEST_STATE, constants=constants)
    except (OSError, DocumentError) as error:
        raise damaged(file.parent, f"{file} cannot be read ({error})") from error


def _check_size(folder: Path, name: str, expected: _File) -> None:
    file = folder / name
    if not file.is_file() or file.stat().st_size != expected.bytes:
        raise damaged(folder, f"{file} is missing or incomplete")


def damaged(folder: Path, fault: str) -> CheckpointError:
    """Return (not raise) an error with the text `fault`, and advice to remove `folder`."""
    return CheckpointError(
        f"{fault}: the checkpoint is damaged, remove {folder} to resume from the one before"
    )


def _complete(directory: Path) -> dict[str, tuple[Path, _Manifest]]:
    """Return id -> (folder, manifest) for checkpoints whose files have the manifest's sizes."""
    found = {}
    # The order is sorted: '.replaced.x' precedes 'x', which replaces it in the result.
    for path in sorted(directory.glob("*")):
        name = path.name.removeprefix(_REPLACED)
        if name.startswith(".") or not path.is_dir():
            continue
        try:
            manifest = _read_manifest(path)
            for file, expected in manifest.files.items():
                _check_size(path, file, expected)
        except CheckpointError:
            continue
        found[name] = (path, manifest)
    return found


def find(directory: Path, checkpoint_id: str) -> Path:
    """Return the folder of a checkpoint, which may be damaged, or renamed by a killed `save`.

    Raises CheckpointNotFound, with the ids of complete checkpoints, if there is none.
    """
    folders = {path.name: path for path in directory.glob("*") if path.is_dir()}
    for name in (checkpoint_id, f"{_REPLACED}{checkpoint_id}"):
        if name in folders:
            return folders[name]
    available = ", ".join(list_checkpoints(directory)) or "none"
    raise CheckpointNotFound(
        f"Checkpoint not found: {checkpoint_id:.200} in {directory}; available: {available}"
    )


def _clear_leftovers(directory: Path) -> None:
    for path in sorted(directory.iterdir()):
        target = directory / path.name.removeprefix(_REPLACED)
        if path.name.startswith(_REPLACED) and not target.exists():
            path.rename(target)
        elif path.name.startswith((_SAVING, _REMOVED, _REPLACED)):
            shutil.rmtree(path)


def _tensors_in(file: Path) -> dict[str, Tensor]:
    try:
        loaded: dict[str, Tensor] = load_file(file)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{file} cannot be read: {error}") from error
    return loaded


def _write_tensors(file: Path, named: Mapping[str, Tensor]) -> None:
    written: dict[str, Tensor] = {}
    storages: set[int] = set()
    for name, tensor in named.items():
        kept = tensor.detach().cpu().contiguous()
        storage = kept.untyped_storage().data_ptr()
        # safetensors rejects tied weights and views.
        written[name] = kept.clone() if storage in storages else kept
        storages.add(storage)
    file.parent.mkdir(exist_ok=True)
    save_file(written, file)


# State as JSON and named tensors. Tuples and integer keys, which JSON lacks, are marked objects.


def split_tensors(value: Any) -> tuple[dict[str, Tensor], Any]:
    """Split nested data into (name -> detached tensor, JSON-compatible data).

    The data consists of mappings, lists, tuples, numbers, text, None and tensors. In the second
    result, tensors, tuples and mappings with other keys than text are replaced by dictionaries that
    `join_tensors` recognizes. Raises CheckpointError, which names the location, for another type.
    """
    tensors: dict[str, Tensor] = {}

    def plain(value: Any, path: str) -> Any:
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, Tensor):
            name = path
            while name in tensors:  # {"a": {"b": t}, "a/b": t} has two equal paths.
                name += "_"
            tensors[name] = value.detach()
            return {_TENSOR: name}
        if isinstance(value, list | tuple):
            entries = [plain(entry, f"{path}/{index}") for index, entry in enumerate(value)]
            return {_TUPLE: entries} if isinstance(value, tuple) else entries
        if isinstance(value, Mapping):
            pairs = [(key, plain(entry, f"{path}/{key}")) for key, entry in value.items()]
            if all(isinstance(key, str) for key in value) and _MARKS.isdisjoint(value):
                return dict(pairs)
            return {_PAIRS: [[plain(key, f"{path}/key"), entry] for key, entry in pairs]}
        raise CheckpointError(
            f"{path} must be a tensor, number, text, None, list, tuple or mapping, got "
            f"{type(value).__module__}.{type(value).__qualname__}"
        )

    return tensors, plain(value, "state")


def join_tensors(tensors: Mapping[str, Tensor], plain: Any) -> Any:
    """Return the nested data that `split_tensors` split into `tensors` and `plain`.

    Raises LookupError, TypeError or ValueError if the two do not belong together.
    """

    def joined(value: Any) -> Any:
        if isinstance(value, list):
            return [joined(entry) for entry in value]
        if not isinstance(value, dict):
            return value
        if _TENSOR in value:
            return tensors[value[_TENSOR]]
        if _TUPLE in value:
            return tuple(map(joined, value[_TUPLE]))
        if _PAIRS in value:
            return {joined(key): joined(entry) for key, entry in value[_PAIRS]}
        return {key: joined(entry) for key, entry in value.items()}

    return joined(plain)
