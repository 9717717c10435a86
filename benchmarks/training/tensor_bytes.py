"""Trains as the first argument says (settings as JSON) and prints the bytes its tensors take.

adapter_memory starts it, one process per measurement.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from srl_train.config import yaml_file
from srl_train.config.run import RunConfig
from srl_train.engine.assemble import assemble
from srl_train.engine.rounds import run_round
from srl_train.engine.state import Run
from srl_train.updates import RoundContext


def measure(config: RunConfig) -> dict[str, int]:
    """Bytes after all rounds: "base", "adapters", "gradients", "optimizers", their sum "tensors".

    Every storage counts once, however many tensors show it.
    """
    before = _modules()
    run = assemble(config)
    gradients = {"gradients": 0}
    _watch_gradients(run, gradients)
    for number in range(config.rounds):
        run_round(run, number)
        run.next_round = number + 1
    if not all(run.versions.values()):
        raise RuntimeError(f"a model never updated: {run.versions}")
    trainable = [t for learner in run.learners.values() for t in learner.weights().values()]
    # Of every module made since, wherever it is kept: a second copy of the base would be counted.
    known = {id(module) for module in before}
    modules = [module for module in _modules() if id(module) not in known]
    everything = [t for m in modules for t in (*m.parameters(False), *m.buffers(False))]
    held = {
        "base": size_of([*everything, *trainable]) - size_of(trainable),
        "adapters": size_of(trainable),
        **gradients,
        "optimizers": size_of(
            t for learner in run.learners.values() for t in tensors_in(learner.optimizer_state())
        ),
    }
    return {**held, "tensors": sum(held.values())}


def size_of(tensors: Iterable[Tensor]) -> int:
    """Bytes of the storages behind the tensors, each counted once."""
    storages = {}
    for tensor in tensors:
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes()
    return sum(storages.values())


def tensors_in(state: Any) -> Iterable[Tensor]:
    """All tensors in nested mappings and lists."""
    if isinstance(state, Tensor):
        yield state
    elif isinstance(state, Mapping):
        for value in state.values():
            yield from tensors_in(value)
    elif isinstance(state, list | tuple):
        for value in state:
            yield from tensors_in(value)


def main(arguments: Sequence[str]) -> int:
    """Measure and print."""
    print(json.dumps(measure(yaml_file.from_tree({}, json.loads(arguments[0])))))
    return 0


def _modules() -> list[torch.nn.Module]:
    """Every module alive. By type(): asking some objects of torch for their class warns."""
    gc.collect()
    return [thing for thing in gc.get_objects() if issubclass(type(thing), torch.nn.Module)]


def _watch_gradients(run: Run, found: dict[str, int]) -> None:
    inner = run.strategy.on_gradients

    def on_gradients(gradients: Any, state: Any, context: RoundContext) -> tuple[Any, Any]:
        own = [t for named in gradients.values() if named is not None for t in named.values()]
        found["gradients"] = max(found["gradients"], size_of(own))
        return inner(gradients, state, context)

    run.strategy = run.strategy._replace(on_gradients=on_gradients)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
