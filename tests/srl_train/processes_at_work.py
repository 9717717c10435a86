"""Tasks of test_processes.py, for one process or for two processes of torchrun."""

import dataclasses
import json
import os
import sys
import traceback
import warnings
from pathlib import Path

import torch
from accelerate.state import AcceleratorState
from safetensors.torch import save_file
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from srl_extensions.ppo.config import PpoConfig
from srl_extensions.ppo.trl_ppo import PpoLearner
from srl_train import checkpoints as checkpoint
from srl_train import fsdp, processes
from srl_train.config import yaml_file
from srl_train.errors import TrainingError
from srl_train.trainer import Trainer
from tests.srl_train.learners.reference.grpo import (
    END,
    sample,
    small_model,
    small_tokenizer,
    some_samples,
)
from tests.srl_train.learners.small_learner import learner

UPDATES = {
    "steady": {"trl": {"adam_epsilon": 1e-4}},
    "advantages": {},
    "constrained": {"gradient_accumulation_steps": 2},
}
"""Case -> the settings of a GRPO learner."""
SLICED = ("constrained",)
"""The cases that are also done with a sliced model."""


def played():
    """Two groups of four; their answers are of very different lengths, as are the halves."""
    first, *others, last = some_samples()
    return [first, *others, sample((7, 8), (15, 3, 2, 9, 11, 4, 6, END), last.episode_return)]


def samples_of(case):
    samples = played()
    if case == "advantages":
        return [
            dataclasses.replace(s, advantages=tuple(0.1 * i + t for t in range(len(s.turns))))
            for i, s in enumerate(samples)
        ]
    if case == "constrained":
        allowed = tuple(range(30))
        return [
            dataclasses.replace(
                s,
                allowed=tuple(
                    (*allowed, token) if own else None
                    for own, token in zip(s.mask, s.completion_ids, strict=True)
                ),
            )
            for s in samples
        ]
    return samples


def updated(one, samples, updates=2):
    """The first step's gradients ('first.NAME'), and the weights after some updates."""
    found = {}
    for number in range(updates):
        for _ in range(one.begin_update(samples, 3 + number, 0)):
            gradients = one.compute_gradients()
            if not found:
                found = {f"first.{n}": g.clone() for n, g in gradients.items()}
            one.apply_gradients(gradients)
        metrics = one.end_update()
    return found | one.weights(), metrics


def grpo(case, sliced=False):
    model = small_model()
    if sliced:
        fsdp.shard("model_0", model)
    one = learner(model, **UPDATES[case])
    return updated(one, samples_of(case)), one


def ppo():
    one = PpoLearner(
        "model_0",
        small_model(),
        small_tokenizer(),
        PpoConfig(minibatches=1),
        group_size=4,
        temperature=1.0,
        planned_updates=10,
    )
    return updated(one, played()), one


def do_updates(folder):
    """Every case's update, written for comparison."""
    several = processes.start("cpu") > 1
    metrics = {}
    for name, (found, one) in {
        **{case: grpo(case) for case in UPDATES},
        "ppo": ppo(),
        **({f"fsdp_{case}": grpo(case, sliced=True) for case in SLICED} if several else {}),
    }.items():
        assert fsdp.is_sharded(one._trainer.model) == name.startswith("fsdp")
        metrics[name] = found[1]
        keep(folder / f"{name}.safetensors", found[0])
    if processes.is_main():
        (folder / "metrics.json").write_text(json.dumps(metrics))


def keep(path, tensors):
    whole = fsdp.in_full(tensors)
    if processes.is_main():
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file({n: t.detach().clone().contiguous() for n, t in whole.items()}, path)


def do_runs(folder):
    """Every configuration in FOLDER/configs from its beginning, and, where another folder holds
    its checkpoint of the middle (FOLDER/from/NAME), on from there."""
    several = processes.start("cpu") > 1
    for path in sorted((folder / "configs").glob("*.yaml")):
        config = yaml_file.load(path)
        begun = folder / "from" / path.stem
        if begun.is_dir():
            resumed(config, begun, folder / "resumed" / path.stem)
        if several or config.parallel == "ddp":
            trainer = Trainer(config, folder / path.stem)
            trainer.fit()
            kept(trainer.run, folder / path.stem)


def resumed(config, checkpoint_dir, folder):
    """The run from its first checkpoint to its end, in `folder`."""
    trainer = Trainer(config, folder, checkpoint_dir=checkpoint_dir)
    trainer.load_checkpoint(checkpoint.list_checkpoints(checkpoint_dir)[-1])
    trainer.fit()
    kept(trainer.run, folder)


def kept(run, folder):
    """Weights and optimizer state of a run that ended, in files."""
    for name, one in run.learners.items():
        keep(folder / f"{name}.weights", one.weights())
        state = fsdp.in_full(one.state()["optimizer"]["state"])
        named = {f"{i}.{k}": torch.as_tensor(v) for i, own in state.items() for k, v in own.items()}
        keep(folder / f"{name}.optimizer", named)


def do_failure(_):
    """Call every collective, then fail in the second process."""
    assert processes.start("cpu") == processes.count() == 2
    place = processes.index()
    own = list(processes.share_of(range(5)))
    assert own == ([0, 1], [2, 3, 4])[place], own
    assert processes.gather(own) == [0, 1, 2, 3, 4]
    assert processes.any_of(place == 1) and not processes.any_of(False)
    metrics = {"a": place, **({"b": 3.0} if place else {})}
    assert processes.mean_metrics(metrics) == {"a": 0.5, "b": 3.0}
    processes.check_same("a number", 7)
    try:
        processes.check_same("a number", place)
    except TrainingError as error:
        sys.stdout.write(f"told in {place}: {error}\n")
    if place == 1:
        # Said here too: the agent tells the error of whichever it sees end first.
        sys.stdout.write("the second process fails\n")
        sys.stdout.flush()
        raise RuntimeError("the second process fails")
    sys.stdout.flush()
    processes.wait()
    sys.stdout.write("never reached\n")


TASKS = {"updates": do_updates, "runs": do_runs, "failure": do_failure}


def do(tasks, folder):
    """Run the tasks in one of two processes."""
    for task in tasks.split(","):
        TASKS[task](Path(folder))
    processes.leave()


def launch(tasks, folder, output):
    """Run the tasks in two processes as torchrun does, then end this process, a fork of a test.

    Forks have all imported packages already. Their output is written to a file.
    """
    code = 1
    try:
        os.setsid()
        sys.stdout = sys.stderr = output.open("w", buffering=1)
        for descriptor in (1, 2):
            os.dup2(sys.stdout.fileno(), descriptor)
        warnings.simplefilter("ignore")
        AcceleratorState._reset_state(reset_partial_state=True)
        agent = LaunchConfig(
            min_nodes=1, max_nodes=1, nproc_per_node=2, run_id="tests", max_restarts=0,
            rdzv_backend="c10d", rdzv_endpoint="127.0.0.1:0", local_addr="127.0.0.1",
            start_method="fork",
        )  # fmt: skip
        elastic_launch(agent, do)(tasks, str(folder))
        code = 0
    except BaseException:  # noqa: BLE001  # a fork must never continue as its parent would
        traceback.print_exc()
    finally:
        os._exit(code)
