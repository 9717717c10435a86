"""Checkpoints: folders written atomically and verified on loading.

    round_00000012/
      models/model_0.safetensors ...   named tensors, one file per stem
      state.json  state.safetensors    counters, generators, schedulers, strategy state
      metadata.json                    description for listings
      manifest.json                    size of every file above, SHA-256 of JSON; written last

A checkpoint is written into a hidden folder, synced to disk, and renamed. After a kill at any
moment the folder contains complete checkpoints and hidden leftovers, which the next save removes.
One process may save into a folder at a time; any number may read. Nothing is pickled.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from srl_envs.errors import DocumentError
from srl_envs.untrusted import read_bytes, read_json
from srl_train.errors import CheckpointError, CheckpointNotFound
from srl_train.run_files import finite

log = logging.getLogger(__name__)

FORMAT = 3
"""Format of a checkpoint folder; increased when an older release could misread a newer one."""
LARGEST_STATE = 2**30
"""Limit of state.json in bytes; it contains the samples in buffers."""
_MANIFEST = "manifest.json"
_DESCRIBED = (_MANIFEST, "metadata.json", "state.json")
_SAVING, _REPLACED, _REMOVED = ".saving.", ".replaced.", ".removed."
_TENSOR, _TUPLE, _PAIRS = "__tensor__", "__tuple__", "__pairs__"
_MARKS = frozenset({_TENSOR, _TUPLE, _PAIRS})


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
        if not _is_inside(name):
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
        _to_disk(directory)
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
    manifest = _read_manifest(found)
    for name in manifest["files"]:
        _verify(found, name, manifest)
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


def load_metadata(directory: Path, checkpoint_id: str) -> dict[str, Any]:
    """Read metadata.json without the rest; errors as in `load`."""
    found = find(directory, checkpoint_id)
    _verify(found, "metadata.json", _read_manifest(found))
    return _mapping(found / "metadata.json")


def list_checkpoints(directory: Path) -> list[str]:
    """Return the ids of the complete checkpoints, the last saved first.

    After a return to an earlier checkpoint, new saves precede the abandoned higher rounds.
    """
    complete = _complete(directory)
    return sorted(complete, key=lambda name: (complete[name][1]["sequence"], name), reverse=True)


def warn_of_incomplete(directory: Path) -> None:
    """Log a warning for each folder of a checkpoint that is incomplete or cannot be read."""
    whole = {path for path, _ in _complete(directory).values()}
    for path in sorted(directory.glob("[!.]*")):
        if path not in whole and any((path / name).exists() for name in _DESCRIBED):
            log.warning("passed over, for it is not whole: %s (remove it)", path)


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


# Files of a checkpoint


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
    with (folder / _MANIFEST).open("x", encoding="utf-8") as file:
        json.dump(manifest, file, indent=2)
    for path in (*folder.rglob("*"), folder):
        _to_disk(path)


def _fingerprint(file: Path) -> dict[str, Any]:
    """Return the size and, for JSON, the digest. Digests of large models would take minutes."""
    content = file.read_bytes() if file.suffix == ".json" else None
    digest = None if content is None else hashlib.sha256(content).hexdigest()
    return {"bytes": file.stat().st_size, "sha256": digest}


def _to_disk(path: Path) -> None:
    """Sync a file's bytes or a folder's entries to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _read_manifest(folder: Path) -> dict[str, Any]:
    file = folder / _MANIFEST
    try:
        manifest = read_json(read_bytes(file))
    except (OSError, DocumentError) as error:
        raise CheckpointError(f"{file} cannot be read ({error}): {_remedy(folder)}") from error
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
            or not _is_inside(name)
        ]
    if wrong:
        raise CheckpointError(f"{file}: wrong entries {', '.join(wrong)}: {_remedy(folder)}")
    return manifest


def _is_inside(name: str) -> bool:
    """Return True if the path, relative to a folder, stays in that folder."""
    path = PurePath(name)
    return (
        bool(path.parts)
        and not path.is_absolute()
        and ".." not in path.parts
        and name.isprintable()  # no file name contains a NUL or a lone surrogate
    )


def _verify(folder: Path, name: str, manifest: Mapping[str, Any]) -> None:
    """Raise CheckpointError unless the file has its size and, for JSON, its bytes."""
    file = folder / name
    try:
        found = _fingerprint(file)
    except OSError as error:
        raise CheckpointError(f"{file} is missing: {_remedy(folder)}") from error
    if found != manifest["files"].get(name):
        raise CheckpointError(f"{file} is not as it was written: {_remedy(folder)}")


def _remedy(folder: Path) -> str:
    return f"the checkpoint is damaged, remove {folder} to go on from the one before it"


def _complete(directory: Path) -> dict[str, tuple[Path, dict[str, Any]]]:
    """Return id to (folder, manifest) of each checkpoint whose files have their sizes."""
    if not directory.is_dir():
        return {}
    found = {}
    # Sorted: '.replaced.x' comes before 'x', which replaces it in the result.
    for path in sorted(directory.iterdir()):
        name = path.name.removeprefix(_REPLACED)
        if name.startswith(".") or not path.is_dir():
            continue
        try:
            manifest = _read_manifest(path)
            sizes = {name: entry["bytes"] for name, entry in manifest["files"].items()}
            if all((path / own).stat().st_size == size for own, size in sizes.items()):
                found[name] = (path, manifest)
        except (CheckpointError, OSError):
            continue
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


def _read(file: Path, *, constants: bool = False) -> Any:
    try:
        content = read_bytes(file, LARGEST_STATE)
        return read_json(content, max_bytes=LARGEST_STATE, constants=constants)
    except DocumentError as error:
        raise CheckpointError(f"{file} cannot be read: {error}") from error


def _mapping(file: Path) -> dict[str, Any]:
    found = _read(file)
    if not isinstance(found, dict):
        raise CheckpointError(f"{file} holds a {type(found).__name__}, not a mapping")
    return found


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
        if storage in storages:  # safetensors refuses tied weights and views
            kept = kept.clone()
        storages.add(storage)
        written[name] = kept
    file.parent.mkdir(exist_ok=True)
    save_file(written, file)


# State as JSON and named tensors. JSON has no tuples and no integer keys: both are marked objects.


def split_tensors(value: Any) -> tuple[dict[str, Tensor], Any]:
    """Split nested mappings, lists and tuples into (named tensors, JSON-compatible data).

    Raises CheckpointError, with its location, for a value that is not a tensor, number, text, None,
    list, tuple or mapping.
    """
    tensors: dict[str, Tensor] = {}

    def plain(value: Any, path: str) -> Any:
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, Tensor):
            name = path
            while name in tensors:  # {"a": {"b": t}, "a/b": t} give the same path
                name += "_"
            tensors[name] = value.detach()
            return {_TENSOR: name}
        if isinstance(value, list):
            return [plain(entry, f"{path}/{index}") for index, entry in enumerate(value)]
        if isinstance(value, tuple):
            return {_TUPLE: [plain(entry, f"{path}/{index}") for index, entry in enumerate(value)]}
        if isinstance(value, Mapping):
            entries = [(key, plain(entry, f"{path}/{key}")) for key, entry in value.items()]
            if all(isinstance(key, str) for key in value) and _MARKS.isdisjoint(value):
                return dict(entries)
            return {_PAIRS: [[plain(key, f"{path}/key"), entry] for key, entry in entries]}
        raise CheckpointError(
            f"{path} is a {type(value).__module__}.{type(value).__qualname__}: a checkpoint holds "
            "tensors, numbers, text, None, lists, tuples and mappings"
        )

    return tensors, plain(value, "state")


def join_tensors(tensors: Mapping[str, Tensor], plain: Any) -> Any:
    """Join the results of `split_tensors`."""
    if isinstance(plain, list):
        return [join_tensors(tensors, entry) for entry in plain]
    if isinstance(plain, dict):
        if _TENSOR in plain:
            return tensors[plain[_TENSOR]]
        if _TUPLE in plain:
            return tuple(join_tensors(tensors, entry) for entry in plain[_TUPLE])
        if _PAIRS in plain:
            return {
                join_tensors(tensors, key): join_tensors(tensors, entry)
                for key, entry in plain[_PAIRS]
            }
        return {key: join_tensors(tensors, entry) for key, entry in plain.items()}
    return plain


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """Apply `change` to all values in nested mappings, lists and plain tuples."""
    if isinstance(value, Mapping):
        return {key: mapped(entry, change) for key, entry in value.items()}
    if type(value) in (list, tuple):
        return type(value)(mapped(entry, change) for entry in value)
    return change(value)


def misfit(found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> str | None:
    """Return how the tensors differ from the expected names, shapes and dtypes; None if equal."""
    for name in sorted(found.keys() | expected.keys()):
        if name not in expected:
            return f"{name!r:.80} is no tensor of it"
        if name not in found:
            return f"its tensor {name!r:.80} is missing"
        own, other = tuple(found[name].shape), tuple(expected[name].shape)
        if own != other:
            return f"{name!r:.80} is {own}, not {other}"
        if found[name].dtype != expected[name].dtype:
            return f"{name!r:.80} is {found[name].dtype}, not {expected[name].dtype}"
    return None


def refuse_unlike(found: Any, expected: Any, path: str) -> None:
    """Raise ValueError, with the location, unless `found` has the structure of `expected`.

    Keys, lengths and types must be equal. An empty mapping or list in `expected` accepts all of its
    type, None accepts numbers too, an object() everything.
    """
    kind: Any = type(expected)
    if expected is None:
        fits = found is None or isinstance(found, int | float)
    elif kind in (int, float):  # JSON has no difference.
        fits = isinstance(found, int | float) and not isinstance(found, bool)
    else:
        fits = isinstance(found, kind)
    if not fits:
        raise ValueError(f"{path} is {found!r:.80}, not of type {kind.__name__}")
    if isinstance(expected, Mapping) and expected:
        for key in sorted(found.keys() ^ expected.keys(), key=str):
            known = "missing" if key in expected else "unknown"
            raise ValueError(f"{path}.{key!s:.80} is {known}")
        for key, value in expected.items():
            refuse_unlike(found[key], value, f"{path}.{key}")
    if isinstance(expected, list | tuple) and expected:
        if len(found) != len(expected):
            raise ValueError(f"{path} has {len(found)} entries, not {len(expected)}")
        for number, (own, other) in enumerate(zip(found, expected, strict=True)):
            refuse_unlike(own, other, f"{path}.{number}")


def refuse_optimizer_state(state: Mapping[str, Any], optimizer: Any) -> None:
    """Raise ValueError, with the location, unless the state fits this AdamW optimizer."""
    groups = optimizer.state_dict()["param_groups"]
    refuse_unlike(state, {"state": {}, "param_groups": groups}, "optimizer")
    for number, (own, other) in enumerate(zip(state["param_groups"], groups, strict=True)):
        if own["params"] != other["params"]:
            raise ValueError(f"optimizer.param_groups.{number}.params is not {other['params']}")
    parameters = [one for group in optimizer.param_groups for one in group["params"]]
    for place, own in state["state"].items():
        path = f"optimizer.state.{place!s:.80}"
        if type(place) is not int or not 0 <= place < len(parameters):
            raise ValueError(f"{path} is no parameter")
        moments = torch.empty_like(parameters[place], device="meta")
        fresh = {"step": torch.tensor(0.0), "exp_avg": moments, "exp_avg_sq": moments}
        refuse_unlike(own, dict.fromkeys(fresh, object()), path)
        for name, value in own.items():
            if not isinstance(value, Tensor):
                raise ValueError(f"{path}.{name} is no tensor")
        if wrong := misfit(own, fresh):
            raise ValueError(f"{path}: {wrong}")
