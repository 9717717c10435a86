import json
import math
import os
import shutil
import sys
from pathlib import Path

import pytest
import torch
from torch import tensor

from srl_train import checkpoints as checkpoint
from srl_train.checkpoints import (
    checkpoint_name,
    list_checkpoints,
    load,
    load_metadata,
    prune,
    save,
    seal,
)
from srl_train.errors import CheckpointError, CheckpointNotFound


def save_round(folder, number, *, final=False, name=None, value=None):
    return save(
        folder,
        name or checkpoint_name(number, final),
        tensors={"models/model_0": {"w": tensor([float(number if value is None else value)])}},
        state={"round": number},
        metadata={"round": number},
    )


def value_of(folder, name):
    return load(folder / name).tensors("models/model_0")["w"].item()


def test_saved_checkpoint_is_restored(tmp_path):
    tied = torch.arange(6.0)
    weights = {
        "w": torch.randn(3, 4, dtype=torch.bfloat16),
        "turned": torch.randn(3, 4).T,
        "tied": tied,
        "tied_too": tied,
        "part": tied[2:4],
        "learned": torch.nn.Parameter(torch.ones(2)),
        "scalar": tensor(3),
        "empty": torch.zeros(0, 3),
    }
    state = {"counters": {1: (2, 3)}, "rng": tensor([7], dtype=torch.uint8), "loss": math.nan}

    path = save(
        tmp_path / "new" / "folder",
        "round_00000003",
        tensors={"models/model_0": weights, "optimizers/model_0": {}},
        state=state,
        metadata={"round": 3, "global_metrics": {"loss": math.nan, "rates": (0.5, math.inf)}},
    )
    found = load(path)
    assert (found.path, found.round) == (path, 3)
    back = found.tensors("models/model_0")
    assert back.keys() == weights.keys()
    for name, value in weights.items():
        assert back[name].dtype == value.dtype
        assert torch.equal(back[name], value), name
    assert found.tensors("optimizers/model_0") == {}
    assert found.state["counters"] == {1: (2, 3)}
    assert found.state["rng"].tolist() == [7]
    assert math.isnan(found.state["loss"])
    assert found.metadata["global_metrics"] == {"loss": None, "rates": [0.5, None]}
    assert found.metadata["checkpoint_id"] == "round_00000003"
    assert found.metadata["timestamp"].endswith("+00:00")
    assert load_metadata(path.parent, path.name) == found.metadata
    assert [entry.name for entry in path.parent.iterdir()] == ["round_00000003"]


@pytest.mark.parametrize("stem", ["../x", "models/../../x", "/tmp/x", "", "a\0b"])
def test_names_outside_the_folder_are_refused(tmp_path, stem):
    folder = tmp_path / "checkpoints"
    for checkpoint_id, tensors in (("round_1", {stem: {}}), (stem, {})):
        with pytest.raises(CheckpointError, match="paths inside its folder"):
            save(folder, checkpoint_id, tensors=tensors, state={}, metadata={"round": 1})
    assert not folder.exists() and not (tmp_path / "x.safetensors").exists()


def test_checkpoints_are_listed_by_time_of_saving(tmp_path):
    for number in (5, 6, 7):
        save_round(tmp_path, number)
    save_round(tmp_path, 6, value=60.0)  # Resumed from round 5.
    assert list_checkpoints(tmp_path)[0] == checkpoint_name(6)
    assert value_of(tmp_path, checkpoint_name(6)) == 60.0
    assert prune(tmp_path, 1) == [checkpoint_name(7), checkpoint_name(5)]


@pytest.mark.parametrize(("keep", "left"), [(-1, [4, 3, 2, 1]), (3, [4, 3, 2])])
def test_prune_keeps_the_newest(tmp_path, keep, left):
    assert list_checkpoints(tmp_path / "absent") == []
    for number in (1, 2, 3, 4):
        save_round(tmp_path, number)
    removed = prune(tmp_path, keep)
    assert list_checkpoints(tmp_path) == [checkpoint_name(number) for number in left]
    assert len(removed) == 4 - len(left)
    assert len(list(tmp_path.iterdir())) == len(left)


def test_missing_checkpoint_error_lists_existing_checkpoints(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"Checkpoint not found: x in .*; available: none"):
        load(tmp_path / "x")
    save_round(tmp_path, 1)
    with pytest.raises(CheckpointNotFound, match=r"available: round_00000001$"):
        load_metadata(tmp_path, "x")


@pytest.mark.parametrize(
    "name", ["models/model_0.safetensors", "state.json", "state.safetensors", "metadata.json"]
)
@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_damaged_file_is_named(tmp_path, name, damage):
    path = save_round(tmp_path, 1)
    content = (path / name).read_bytes()
    if damage == "cut":
        (path / name).write_bytes(content[:-1])
    else:
        (path / name).unlink()
    with pytest.raises(CheckpointError, match=f"{name} .*damaged, remove {path} to resume"):
        load(path)
    if name == "metadata.json":
        with pytest.raises(CheckpointError, match="damaged"):
            load_metadata(tmp_path, path.name)
    assert list_checkpoints(tmp_path) == []


def manifest(**changed):
    whole = {"format": 3, "checkpoint_id": "x", "round": 1, "sequence": 1, "files": {}}
    return json.dumps(whole | changed)


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        (None, "cannot be read"),
        ("{", "cannot be read"),
        ("[" * 100_000, "nested deeper"),
        ('{"format": 999}', "must have format 3"),
        (manifest(files={"/etc/passwd": {"bytes": 1}}), "paths inside its folder"),
        (manifest(files={"\ud800": {"bytes": 1}}), "paths inside its folder"),
        (manifest(sequence="last"), "sequence: .*, got 'last'"),
        ("3", "must have format 3"),
        ("{}", "format: is required"),
    ],
)
def test_folder_with_a_wrong_manifest_is_not_listed(tmp_path, manifest, message):
    path = save_round(tmp_path, 1)
    (path / "manifest.json").unlink()
    if manifest is not None:
        (path / "manifest.json").write_text(manifest)
    assert list_checkpoints(tmp_path) == []
    with pytest.raises(CheckpointError, match=message):
        load(path)
    save_round(tmp_path, 2)
    assert list_checkpoints(tmp_path) == ["round_00000002"]


class Killed(BaseException):
    """Simulated kill of the process."""


def die_at(monkeypatch, number):
    """Raise Killed at the given system call of saving, without any cleanup."""
    calls = iter(range(number, -1, -1))

    def dying(real):
        def call(*arguments, **keywords):
            if next(calls) == 0:
                raise Killed
            return real(*arguments, **keywords)

        return call

    real_remove = shutil.rmtree
    alive = dying(lambda *arguments, **keywords: None)

    def remove(path, ignore_errors=False):
        if sys.exc_info()[0] is not Killed:  # A killed process cleans up nothing.
            try:
                alive()
            except Killed:  # A folder is not deleted atomically.
                next((file for file in path.rglob("*") if file.is_file()), path / "none").unlink(
                    missing_ok=True
                )
                raise
            real_remove(path, ignore_errors=ignore_errors)

    monkeypatch.setattr(os, "fsync", dying(os.fsync))
    monkeypatch.setattr(Path, "rename", dying(Path.rename))
    monkeypatch.setattr(checkpoint.shutil, "rmtree", remove)


def test_kill_at_any_step_leaves_the_old_or_the_new_checkpoint(tmp_path):
    deaths, moments = 0, {"old": 0, "new": 0}
    for number in range(100):
        folder = tmp_path / str(number)
        save_round(folder, 1)
        save_round(folder, 2, value=0.0)
        with pytest.MonkeyPatch.context() as patch:
            die_at(patch, number)
            try:
                save_round(folder, 2, value=1.0)  # replaces
                prune(folder, 1)
            except Killed:
                deaths += 1
            else:
                break
        value = value_of(folder, checkpoint_name(2))
        moments["new" if value else "old"] += 1
        assert list_checkpoints(folder)[0] == checkpoint_name(2)
        assert len(list_checkpoints(folder)) in (1, 2)
        for name in list_checkpoints(folder):
            load(folder / name)
        save_round(folder, 3)  # It removes leftovers of the kill.
        listed = list_checkpoints(folder)
        assert {path.name for path in folder.iterdir()} == set(listed)
        assert listed[:2] == [checkpoint_name(3), checkpoint_name(2)]
        assert value_of(folder, checkpoint_name(2)) == value
    assert deaths > 10
    assert min(moments.values()) > 1


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("state.json", b'{"a": {"__tensor__": "nowhere"}}'),
        ("state.json", b'{"__pairs__": 5}'),
        ("state.safetensors", b"\xff" * 100),
    ],
)
def test_sealed_folder_without_a_state_is_refused(tmp_path, name, content):
    folder = checkpoint.save(tmp_path, "a", tensors={}, state={"a": 1}, metadata={"round": 1})
    (folder / "manifest.json").unlink()
    (folder / name).write_bytes(content)
    seal(folder, checkpoint_id="a", round=1, sequence=1)
    with pytest.raises(CheckpointError, match=name):
        checkpoint.load(folder)
