"""Invalid checkpoints are refused with the file and the entry, and leave the run unchanged."""

import json
from contextlib import contextmanager

import pytest
import torch
from safetensors.torch import load_file, save

from srl_train import checkpoints as manifest
from srl_train.errors import CheckpointError, CheckpointNotFound
from srl_train.trainer import Trainer
from tests.srl_train.run_state import everything, same

NAME = "round_00000002"


@pytest.fixture(scope="module")
def trainer(short_run, tmp_path_factory):
    """Return a trainer after two rounds, whose checkpoint has all kinds of state."""
    config = short_run(
        rounds=3,
        models__count=1,
        mode__name="mixed",
        sft={"data_policy": "uniform", "episodes": 2},
        updates={"strategy": "asynchronous", "sample_budget": {"model_0": 12}},
    )
    one = Trainer(config, tmp_path_factory.mktemp("trained") / "run")
    one.train_round()
    one.train_round()
    one.save_checkpoint()
    yield one
    one.close()


@contextmanager
def resealed(trainer, name, content):
    """Replace a file of the checkpoint in the block, with a matching manifest."""
    folder = trainer.files.checkpoints / NAME
    before = {file: file.read_bytes() for file in (folder / name, folder / "manifest.json")}
    (folder / name).unlink()  # Loaded tensors may still map the old file.
    (folder / name).write_bytes(content)
    (folder / "manifest.json").unlink()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifest, "_to_disk", lambda path: None)
        manifest.seal(folder, checkpoint_id=NAME, round=2, sequence=1)
    try:
        yield
    finally:
        for file, content in before.items():
            file.unlink()
            file.write_bytes(content)


def places_in(value, path=()):
    """Return the paths of all entries, and of the first one of each list."""
    found = []
    if isinstance(value, dict):
        found = list(value.items())
    elif isinstance(value, list):
        found = list(enumerate(value[:1]))
    return [p for key, own in found for p in ((*path, key), *places_in(own, (*path, key)))]


def changed(file, path, value=None):
    """Return the JSON file's content with an entry deleted, or replaced by a value."""
    tree = json.loads(file.read_text())
    within = tree
    for key in path[:-1]:
        within = within[key]
    if value is None:
        del within[path[-1]]
    else:
        within[path[-1]] = value
    return json.dumps(tree).encode()


@pytest.mark.parametrize(
    ("name", "value", "step"),
    [
        ("state.json", None, 6),
        *(
            pytest.param(name, value, 1, marks=pytest.mark.slow)
            for name in ("state.json", "metadata.json")
            for value in (None, "text", [[]])
        ),
    ],
)
def test_invalid_entries_are_refused_without_effect(name, value, step, trainer):
    before, refused = everything(trainer.run), 0
    file = trainer.files.checkpoints / NAME / name
    for path in places_in(json.loads(file.read_text()))[::step]:
        with resealed(trainer, name, changed(file, path, value)):
            try:
                trainer.load_checkpoint(NAME)
            except CheckpointError as error:
                assert NAME in str(error)
                refused += 1
            else:  # No state depends on the entry.
                trainer.load_checkpoint(NAME)
        assert same(everything(trainer.run)["weights"], before["weights"]), path
    trainer.load_checkpoint(NAME)
    assert same(everything(trainer.run), before)
    assert refused > 50 / step


def of_dtype(dtype):
    return lambda tensor: tensor.to(dtype)


@pytest.mark.parametrize(
    ("file", "key", "change", "says"),
    [
        ("models/model_0", "weight", of_dtype(torch.int8), "models/model_0.safetensors: .*int8"),
        (
            "models/model_0",
            "weight",
            lambda one: one[:1],
            "models/model_0.safetensors: .* must be ",
        ),
        ("state", "exp_avg", of_dtype(torch.float64), r"learners.model_0.optimizer.*float64"),
        (
            "state",
            "step",
            lambda one: one.repeat(2),
            r"learners.model_0.optimizer.state.0: tensor 'step'",
        ),
    ],
)
def test_tensors_of_wrong_shape_or_dtype_are_refused(file, key, change, says, trainer):
    tensors = load_file(trainer.files.checkpoints / NAME / f"{file}.safetensors")
    name = min(name for name in tensors if name.endswith(key))
    content = save(tensors | {name: change(tensors[name]).contiguous()})
    before = everything(trainer.run)
    with (
        resealed(trainer, f"{file}.safetensors", content),
        pytest.raises(CheckpointError, match=says),
    ):
        trainer.load_checkpoint(NAME)
    assert same(everything(trainer.run), before)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("seconds",), float("nan")),
        (("mode", "balance"), float("inf")),
        (("versions", "model_0"), 10**400),
    ],
    ids=lambda value: ".".join(value) if isinstance(value, tuple) else str(value)[:4],
)
def test_impossible_numbers_are_refused(path, value, trainer):
    content = changed(trainer.files.checkpoints / NAME / "state.json", path, value)
    before = everything(trainer.run)
    with (
        resealed(trainer, "state.json", content),
        pytest.raises(CheckpointError, match=rf"state.json: {'.'.join(path)}: "),
    ):
        trainer.load_checkpoint(NAME)
    assert same(everything(trainer.run), before)


@pytest.mark.parametrize("name", ["", "..", "../checkpoints", "/", "\0"])
def test_checkpoint_name_outside_the_folder_is_refused(name, trainer):
    with pytest.raises(CheckpointNotFound, match=NAME):
        trainer.load_checkpoint(name)
