"""What is measured in a process of its own: `processes.call` starts it by the function's name.

Arguments: the function's name, then its own, as JSON. The last line printed is its result as JSON.
"""

from __future__ import annotations

import gc
import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoTokenizer

from benchmarks.training.costs import vocabulary
from benchmarks.training.costs.usage import largest
from benchmarks.training.runs import rounds_of
from srl_agents.llm import tiny
from srl_train.config import yaml_file
from srl_train.build import build_run
from srl_train.environment import build_env
from srl_train.run import Run
from srl_train.trainer import Trainer
from srl_train.updates import RoundContext


def round_seconds(settings: Mapping[str, Any]) -> dict[str, list[float]]:
    """Seconds of every round but the first: "round", and of it "rollout" and "train"."""
    with tempfile.TemporaryDirectory(prefix="round-seconds-") as folder:
        config = yaml_file.from_tree({}, settings)
        trainer = Trainer(config, folder, record_metrics=False)
        rows = [trainer.train_round().row["seconds"] for _ in range(config.rounds)][1:]
    parts = {part: [row[part] for row in rows] for part in ("rollout", "train")}
    return {"round": [sum(row.values()) for row in rows], **parts}


def rounds_on(settings: Mapping[str, Any]) -> dict[str, Any]:
    """All rounds but the first: seconds of play and of training, answers and their tokens; and the
    most bytes of tensors that the accelerator held, or of this process where there is none."""
    config = yaml_file.from_tree({}, settings)
    with tempfile.TemporaryDirectory(prefix="rounds-on-") as folder:
        trainer = Trainer(config, folder, record_metrics=False)
        rounds = [trainer.train_round() for _ in range(config.rounds)][1:]
    chosen = [
        len(step.decision.tokens.completion_ids)
        for one in rounds
        for episode in one.episodes
        for turn in episode.turns
        for step in turn
        if step.decision.tokens is not None
    ]
    seconds = [one.row["seconds"] for one in rounds]
    divergence = [own["sampler_divergence"] for own in rounds[-1].row["models"].values()]
    return {
        "rollout": sum(own["rollout"] for own in seconds),
        "train": sum(own["train"] for own in seconds),
        "answers": len(chosen),
        "tokens": sum(chosen),
        "divergence": sum(divergence) / len(divergence),
        "bytes": largest(),
    }


def random_qwen2(
    folder: str, layers: int, width: int, settings: Mapping[str, Any], dtype: str = "float32"
) -> int:
    """Write a randomly initialised Qwen2 with the embedded model's tokenizer for this game's words;
    returns its number of parameters."""
    config = yaml_file.from_tree({}, settings)
    tokenizer = AutoTokenizer.from_pretrained(
        tiny.folder(partial(build_env, config)), trust_remote_code=False
    )
    model = vocabulary.random_qwen2(
        layers,
        width,
        vocab_size=len(tokenizer),
        intermediate_size=width * 8 // 3,
        num_key_value_heads=max(1, width // vocabulary.HEAD // 4),
        max_position_embeddings=4096,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model.to(getattr(torch, dtype)).save_pretrained(Path(folder))
    tokenizer.save_pretrained(Path(folder))
    return sum(parameter.numel() for parameter in model.parameters())


def tensor_bytes(settings: Mapping[str, Any]) -> dict[str, int]:
    """Bytes after all rounds: "base", "adapters", "gradients", "optimizers", their sum "tensors".

    Every storage counts once, however many tensors show it.
    """
    config = yaml_file.from_tree({}, settings)
    before = _modules()
    run = build_run(config)
    gradients = {"gradients": 0}
    _watch_gradients(run, gradients)
    for _ in rounds_of(run):
        pass
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


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "round_seconds": round_seconds, "random_qwen2": random_qwen2, "tensor_bytes": tensor_bytes,
    "update_cost": vocabulary.update_cost, "rounds_on": rounds_on,
    "accelerators": torch.cuda.device_count,
}  # fmt: skip


def main(words: Sequence[str]) -> None:
    """Measure and print."""
    name, *arguments = words
    print(json.dumps(FUNCTIONS[name](*map(json.loads, arguments))))


if __name__ == "__main__":
    main(sys.argv[1:])
