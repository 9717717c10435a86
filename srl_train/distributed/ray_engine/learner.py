"""Learner worker: one model, its optimizer, and its whole state as plain data and tensors."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from srl_extensions.vllm.config import VLLMBackendConfig
from srl_extensions.vllm.models import TokenFacts, probe_of, servable
from srl_extensions.vllm.publisher import write_weights
from srl_train.checkpoints.tensor_tree import mapped
from srl_train.config.learning.offline import OfflineConfig
from srl_train.config.run import RunConfig
from srl_train.distributed import fsdp, processes
from srl_train.engine.builders.stage_learners import build_stage_learner
from srl_train.learners.learner import Learned, Learner, StageLearner, restore, state_of
from srl_train.loading import learning_models
from srl_train.local import build_learners
from srl_train.players import build_sampling, matchmaking_of

State = Mapping[str, Any]
"""weights, optimizer, counters and reference of a learner, and of the stage under way its section,
planned_steps, optimizer, counters and losses (None without one); all tensors on the CPU."""


class OpenStage(NamedTuple):
    """A stage under way."""

    section: OfflineConfig
    planned_steps: int
    learner: StageLearner

    def state(self) -> dict[str, Any]:
        """What its successor begins with, and what was seen last."""
        return {
            "section": self.section,
            "planned_steps": self.planned_steps,
            "optimizer": self.learner.optimizer_state(),
            "counters": self.learner.counters(),
            "losses": self.learner.losses,
        }


class LearnerWorker:
    """Trains one model of a run."""

    def __init__(self, config: RunConfig, model: str, make_env: Callable[[], Any]) -> None:
        """Load the model, and no other; raises as `assemble` does.

        In one of several processes all of them make one each, and call the same methods.
        """
        torch.set_num_threads(config.threads)
        started = processes.start(config.models.device, config.threads)
        with closing(make_env()) as env:
            matchmaking = matchmaking_of(config, env)
        sampling, bases = build_sampling(config, matchmaking), config.models.bases
        if isinstance(config.backend, VLLMBackendConfig):
            bases = servable(config, make_env, bases)
        with processes.main_first():
            backends, trees, _ = learning_models(
                config.models, {model: bases[model]}, make_env, config.seed
            )
        self._module, self._loaded = trees[model], backends[model]
        self._make_env = make_env
        self._device = next(self._module.parameters()).device
        self._seed = config.seed
        tokenizers = {model: self._loaded.tokenizer}
        learners = build_learners(
            config, make_env, trees, tokenizers, matchmaking, sampling, started
        )
        self._learner = learners[model]
        self._stage: OpenStage | None = None

    def call(self, method: str, *arguments: Any) -> Any:
        """What the learner's method of that name gives; tensors come and go on the CPU."""
        return self._called(self._learner, method, arguments)

    def call_in_stage(self, method: str, *arguments: Any) -> Any:
        """The same of the learner of the stage under way."""
        assert self._stage is not None, "no stage was opened"
        return self._called(self._stage.learner, method, arguments)

    def learn(
        self, call: str, samples: Sequence[Any], seed: int, version: int
    ) -> tuple[Learned, State]:
        """(one update of the model on its own, the state after it); `call` is "call" or
        "call_in_stage"."""
        return getattr(self, call)("learn", samples, seed, version), self.state()

    def open_stage(self, section: OfflineConfig, planned_steps: int) -> None:
        """Train in the stage of this section from now on, and in no other that was left open."""
        self.close_stage()
        learner = build_stage_learner(
            section,
            self._learner.name,
            self._module,
            self._loaded.tokenizer,
            planned_steps,
            self._seed,
        )
        self._stage = OpenStage(section, planned_steps, learner)

    def close_stage(self) -> None:
        """Go on with rounds."""
        if self._stage is not None:
            self._stage.learner.__exit__()
            self._stage = None

    def state(self) -> State:
        """Everything that training changes."""
        stage = None if self._stage is None else self._stage.state()
        kept = {**state_of(self._learner), "stage": stage}
        found: State = moved(fsdp.in_full(kept), torch.device("cpu"))
        return found

    def restore(self, state: State) -> None:
        """Go on from what `state` gave."""
        restore(self._learner, state)
        if (stage := state["stage"]) is not None:
            self.open_stage(stage["section"], stage["planned_steps"])
            self.call_in_stage("load_optimizer_state", stage["optimizer"])
            self.call_in_stage("load_counters", stage["counters"])

    def saved_model(self) -> dict[str, bytes]:
        """Relative path -> content of the files of the model, as its users load it."""
        with tempfile.TemporaryDirectory() as folder:
            self._learner.save_model(Path(folder))
            return _files(Path(folder))

    def token_facts(self) -> TokenFacts:
        """What has to be known of its base to ask servers for it."""
        return TokenFacts.of(self._loaded)

    def probe(self) -> list[int]:
        """Token ids that publications are checked on."""
        return probe_of(self._make_env, self._loaded)

    def publication(
        self, weights: Mapping[str, Tensor], probes: Sequence[Sequence[int]]
    ) -> tuple[dict[str, bytes], Tensor]:
        """(name -> content of the files that servers load of a model like this one with these
        weights, its log-probabilities; see `write_weights`)."""
        with tempfile.TemporaryDirectory() as folder:
            expected = write_weights(self._module, weights, probes, Path(folder))
            return _files(Path(folder)), expected

    def _called(self, learner: Learner, method: str, arguments: Sequence[Any]) -> Any:
        placed = [moved(one, self._device) for one in arguments]
        return moved(fsdp.in_full(getattr(learner, method)(*placed)), torch.device("cpu"))


def _files(folder: Path) -> dict[str, bytes]:
    """Relative path -> content of all files under the folder."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def moved(value: Any, device: torch.device) -> Any:
    """A copy of nested mappings, lists and tuples whose tensors lie on `device`; the rest as it
    is."""
    return mapped(
        value, lambda one: one.detach().to(device, copy=True) if isinstance(one, Tensor) else one
    )
