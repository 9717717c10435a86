"""Copies of the state of a run, for comparisons."""

import json

import torch
from torch import Tensor

from srl_extensions.offline.stages import Stage
from srl_train.round import plan_round, play
from srl_train.trainer import Trainer


def play_round(run, number):
    """Play the round's episodes without learning from them."""
    return play(run, plan_round(run, number))


def replace_policies(run, **policies):
    """Have these agents played by other policies."""
    original = run.engine.policies_of
    run.engine.policies_of = lambda seats: {**original(seats), **policies}


def weights(run):
    """Model -> parameter name -> copy."""
    return {m: {n: t.clone() for n, t in one.weights().items()} for m, one in run.learners.items()}


def optimizers(run):
    """Model -> everything the optimizer and its schedule remember."""
    states = {model: one.state() for model, one in run.learners.items()}
    return {m: (_copied(own["optimizer"]), own["counters"]) for m, own in states.items()}


def everything(run):
    """All that a resumed run must have in common with one that was never stopped."""
    return {
        "weights": weights(run),
        "optimizers": optimizers(run),
        "versions": dict(run.versions),
        "totals": dict(run.totals),
        "buffers": {m: buffer.state() for m, buffer in run.buffers.items()},
        "strategy": _copied(run.strategy_state),
        "mode": dict(run.mode_state),
        "next_round": run.next_round,
    }


def resumed_and_whole(config, folder, rounds=1):
    """Return the finished trainers of a run resumed after `rounds` rounds and of one that was not
    interrupted."""
    whole = Trainer(config, folder / "whole")
    whole.fit()
    cut = Trainer(config, folder / "cut")
    for _ in range(rounds):
        cut.train_round()
    cut.save_checkpoint()
    cut.close()
    resumed = Trainer(config, folder / "cut")
    resumed.load_checkpoint()
    resumed.fit()
    return resumed, whole


def stopped_after_every_pass(make_trainer, passes, monkeypatch):
    """Run the offline stages with a stop after every pass, each time with a resumed trainer."""
    train_pass = Stage.train_pass

    def one_pass(stage):
        trainer._stop.set()
        return train_pass(stage)

    with monkeypatch.context() as patch:
        patch.setattr(Stage, "train_pass", one_pass)
        for done in range(passes):
            trainer = make_trainer()
            if done:
                trainer.load_checkpoint()
            assert trainer.run.stages.passes == done
            assert not trainer.fit()["training_completed"]
            trainer.close()


def same(one, other):
    """Equal to the bit, tensors included."""
    if isinstance(one, Tensor) or isinstance(other, Tensor):
        return (
            isinstance(one, Tensor)
            and isinstance(other, Tensor)
            and one.dtype == other.dtype
            and torch.equal(one, other)
        )
    if isinstance(one, dict):
        return (
            isinstance(other, dict)
            and one.keys() == other.keys()
            and all(same(one[key], other[key]) for key in one)
        )
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


def without_times(rows):
    """Return rows of metrics without times and without `sampler_*`, which depend on the batch."""
    found = json.loads(json.dumps(list(rows)))
    for row in found:
        row.pop("seconds", None)
        for own in row["models"].values():
            for name in [name for name in own if name.startswith("sampler_")]:
                del own[name]
    return found


def _copied(value):
    if isinstance(value, Tensor):
        return value.clone()
    if isinstance(value, dict):
        return {key: _copied(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_copied, value))
    return value
