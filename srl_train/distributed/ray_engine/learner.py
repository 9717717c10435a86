"""Learner worker: one model, its optimizer, and its whole state as plain data and tensors."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from srl_train.config.run import RunConfig
from srl_train.data.samples import TokenSample
from srl_train.engine.builders.learners import build_learner, joint_state
from srl_train.engine.builders.players import build_sampling
from srl_train.learners.learner import Learned
from srl_train.players.assignment import players_by_agent
from srl_train.players.learning_models import learning_models

State = Mapping[str, Any]
"""weights, optimizer, counters and reference of a learner, all tensors on the CPU."""


class LearnerWorker:
    """Trains one model of a run."""

    def __init__(self, config: RunConfig, model: str, make_env: Callable[[], Any]) -> None:
        """Load the model, and no other; raises as `assemble` does."""
        torch.set_num_threads(config.threads)
        with closing(make_env()) as env:
            seats = players_by_agent(config, env)
        sampling, joint = build_sampling(config, seats), joint_state(config, make_env)
        bases = dict(zip(config.models.names, config.models.bases, strict=True))
        backends, trees, _ = learning_models(
            config.models, {model: bases[model]}, make_env, config.seed
        )
        self._device = next(trees[model].parameters()).device
        self._learner = build_learner(
            config, model, trees[model], backends[model].tokenizer, seats, sampling, joint
        )

    def call(self, method: str, *arguments: Any) -> Any:
        """What the learner's method of that name gives; tensors come and go on the CPU."""
        placed = [moved(one, self._device) for one in arguments]
        return moved(getattr(self._learner, method)(*placed), torch.device("cpu"))

    def learn(
        self, samples: Sequence[TokenSample], seed: int, version: int
    ) -> tuple[Learned, State]:
        """(one update of the model on its own, the state after it)."""
        return self._learner.learn(samples, seed, version), self.state()

    def state(self) -> State:
        """Everything that training changes."""
        own = self._learner
        kept = {
            "weights": own.weights(),
            "optimizer": own.optimizer_state(),
            "counters": own.counters(),
            "reference": own.reference(),
        }
        found: State = moved(kept, torch.device("cpu"))
        return found

    def restore(self, state: State) -> None:
        """Go on from what `state` gave."""
        self._learner.set_weights(state["weights"])
        self._learner.load_optimizer_state(state["optimizer"])
        self._learner.load_counters(state["counters"])
        if state["reference"]:
            self._learner.set_reference(state["reference"])

    def saved_model(self) -> dict[str, bytes]:
        """Relative path -> content of the files of the model, as its users load it."""
        with tempfile.TemporaryDirectory() as folder:
            self._learner.save_model(Path(folder))
            files = [path for path in Path(folder).rglob("*") if path.is_file()]
            return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def moved(value: Any, device: torch.device) -> Any:
    """A copy of nested mappings, lists and tuples whose tensors lie on `device`; the rest as it
    is."""
    if isinstance(value, Tensor):
        return value.detach().to(device, copy=True)
    if isinstance(value, dict):
        return {key: moved(one, device) for key, one in value.items()}
    if isinstance(value, list):
        return [moved(one, device) for one in value]
    return value
