"""Base class of learners: a TRL trainer that is stepped from outside."""

from __future__ import annotations

import contextlib
import math
import random
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from srl_agents.llm.backends.huggingface.loading import no_bars
from srl_agents.seeding import of_step
from srl_train import fsdp, processes
from srl_train.config.learning.learners import OptimizerConfig
from srl_train.errors import ConfigError, TrainingError
from srl_train.learners.learner import Learned, Learner
from srl_train.learners.upstream_warnings import quiet_upstream
from srl_train.tensor_checks import misfit, refuse_optimizer_state, refuse_unlike
from srl_train.updates import not_finite

_STEPPING = threading.Lock()
"""Lock of steps: each sets random generators, accelerate's GradientState and warning filters."""


class SteppedLearner(Learner):
    """Base class of learners on a TRL trainer, with any loss.

    A subclass calls this constructor, builds its trainer, and passes it to `_step_from_outside`. It
    defines `begin_update`, and `_inputs`, which returns the input of each forward pass.
    """

    def __init__(self, name: str, config: OptimizerConfig, model: Any, seed: int) -> None:
        self.name = name
        self._config = config
        self._names = [n for n, p in model.named_parameters() if p.requires_grad]
        self._seed = seed
        self._steps_done = 0

    def _step_from_outside(self, trainer: Any, planned_steps: int) -> None:
        if trainer.args.activation_checkpointing:
            trainer.model.activation_checkpointing_enable()
        found, kind = trainer.accelerator.num_processes, trainer.accelerator.distributed_type.value
        if found != processes.count() or (found > 1 and not kind.startswith("MULTI_")):
            raise TrainingError(
                f"{self.name}: its trainer runs on {found} process(es) ({kind} in accelerate), the "
                f"run has {processes.count()}: start with torchrun and no other launcher, build "
                "no Accelerator before the run, and unset ACCELERATE_... in the environment"
            )
        try:
            trainer.create_optimizer_and_scheduler(planned_steps)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{self._config.where}: optimizer or schedule: {error}") from error
        if fsdp.is_sharded(trainer.model):  # nothing is left to wrap
            trainer.model_wrapped = trainer.model
            trainer.optimizer = trainer.accelerator.prepare(trainer.optimizer)
        else:
            trainer.model_wrapped, trainer.optimizer = trainer.accelerator.prepare(
                trainer.model, trainer.optimizer
            )
        trainer.current_gradient_accumulation_steps = trainer.args.gradient_accumulation_steps
        parameters = dict(trainer.model.named_parameters())
        self._trainer = trainer
        self._parameters = {n: parameters[n] for n in self._names}

    def _own_arguments(self) -> dict[str, Any]:
        raise NotImplementedError

    def _inputs(self) -> Any:
        raise NotImplementedError

    def _begin(self, seed: int) -> None:
        self._seed = seed
        self._steps_done = 0
        self._trainer._metrics["train"].clear()
        for parameter in self._parameters.values():
            parameter.grad = None

    def learn(self, samples: Sequence[Any], seed: int, version: int) -> Learned:
        left_out = []
        for step in range(self.begin_update(samples, seed, version)):
            gradients = self.compute_gradients()
            broken = not_finite(gradients)
            if broken is not None:
                left_out.append((step, broken))
            self.apply_gradients(None if broken is not None else gradients)
            del gradients  # They would occupy memory during the next forward pass.
        return Learned(self.end_update(), left_out)

    def compute_gradients(self) -> dict[str, Tensor]:
        trainer = self._trainer
        trainer.model.train()  # TRL derives its own mode from this
        parts = trainer.args.gradient_accumulation_steps
        loss = 0.0
        seed = of_step(self._seed, self._steps_done, processes.index())
        with _STEPPING, isolated_randomness(seed), quiet_upstream():
            for part in range(1, parts + 1):
                # As in the trainer's loop: processes average gradients in the last part only.
                last = part == parts
                trainer.accelerator.gradient_state._set_sync_gradients(last)
                model = trainer.model_wrapped
                apart = contextlib.nullcontext() if last else trainer.accelerator.no_sync(model)
                with apart:
                    loss += trainer.training_step(model, self._inputs(), None).item()
        self._steps_done += 1
        losses = processes.gather([loss])
        loss = sum(losses) / len(losses)  # before the check: no process may stop alone
        if not math.isfinite(loss):
            section, rate = self._config.where, self._config.learning_rate
            raise TrainingError(
                f"{self.name}: the loss is {loss}; lower {section}.learning_rate ({rate}) "
                "or look at the last episodes' rewards"
            )
        trainer._metrics["train"]["loss"].append(loss)
        # The gradients were allocated between the activations, whose memory they would keep from
        # being freed. All are copied before one is freed, or the next copy would take its place.
        gradients = {
            name: parameter.grad.clone()
            for name, parameter in self._parameters.items()
            if parameter.grad is not None
        }
        for parameter in self._parameters.values():
            parameter.grad = None
        if processes.count() == 1:
            return gradients
        # DDP and FSDP average only the gradients of the model itself.
        others = {n: gradient for n, gradient in gradients.items() if n not in self._names}
        return {**gradients, **trainer.accelerator.reduce(others, "mean")}

    def apply_gradients(self, gradients: Mapping[str, Tensor] | None) -> None:
        if gradients is None:
            return  # no step at all: AdamW would move even on zeros
        trainer = self._trainer
        for name, gradient in gradients.items():
            # Clipping is in place, and averaged gradients are shared between models.
            parameter = self._parameters[name]
            parameter.grad = fsdp.like(gradient, parameter).clone()
        with _STEPPING:
            norm = fsdp.full(trainer._clip_grad_norm(trainer.model_wrapped))
            trainer._metrics["train"]["grad_norm"].append(float(norm))
            trainer._metrics["train"]["learning_rate"].append(trainer.lr_scheduler.get_last_lr()[0])
            trainer.optimizer.step()
            trainer.lr_scheduler.step()
        trainer.state.global_step += 1
        for parameter in self._parameters.values():
            parameter.grad = None

    def end_update(self) -> dict[str, float]:
        collected = self._trainer._metrics["train"]
        metrics = {name: sum(values) / len(values) for name, values in collected.items() if values}
        collected.clear()
        return processes.mean_metrics(metrics)

    def weights(self) -> dict[str, Tensor]:
        return {name: parameter.detach() for name, parameter in self._parameters.items()}

    def set_weights(self, weights: Mapping[str, Tensor]) -> None:
        fsdp.reshard_all(self._trainer.model)
        with torch.no_grad():
            for name, value in weights.items():
                self._parameters[name].copy_(fsdp.like(value, self._parameters[name]))

    def reference(self) -> dict[str, Tensor]:
        """Return the reference model's live tensors by parameter name; {} if there is none."""
        return {}

    def set_reference(self, weights: Mapping[str, Tensor]) -> None:
        with torch.no_grad():
            for name, tensor in self.reference().items():
                tensor.copy_(weights[name])

    def save_model(self, folder: Path) -> None:
        """Write the model or its PEFT adapter, with the tokenizer, into `folder`.

        Only the main process writes. All processes must call this method if the model is sharded.
        """
        model = self._trainer.accelerator.unwrap_model(self._trainer.model)
        arguments: dict[str, Any] = {}
        if hasattr(model, "peft_config"):
            # PEFT would query the hub to find out whether embeddings were resized.
            arguments |= {"selected_adapters": ["default"], "save_embedding_layers": False}
        if fsdp.is_sharded(model):
            arguments["state_dict"] = fsdp.whole_state_dict(model)
        if processes.is_main():
            with no_bars():
                model.save_pretrained(folder, **arguments)
            self._trainer.processing_class.save_pretrained(folder)

    def state(self) -> dict[str, Any]:
        schedule = self._trainer.lr_scheduler.state_dict()
        plain = {k: v for k, v in schedule.items() if isinstance(v, int | float | list | bool)}
        return {
            "weights": self.weights(),
            "optimizer": self._trainer.optimizer.state_dict(),
            "counters": {"schedule": plain, "global_step": self._trainer.state.global_step},
            "reference": self.reference(),
        }

    def refuse_state(self, state: Mapping[str, Any]) -> None:
        current = self.state()
        for part in ("weights", "reference"):
            if state.get(part) and (wrong := misfit(state[part], current[part])):
                raise ValueError(f"{part}: {wrong}")
        refuse_optimizer_state(state["optimizer"], self._trainer.optimizer)
        refuse_unlike(state["counters"], current["counters"], "counters")

    def load_state(self, state: Mapping[str, Any]) -> None:
        optimizer, counters = self._trainer.optimizer, state["counters"]
        self.set_weights(state.get("weights", {}))
        optimizer.load_state_dict(fsdp.optimizer_state_like(state["optimizer"], optimizer))
        self._trainer.lr_scheduler.load_state_dict(dict(counters["schedule"]))
        self._trainer.state.global_step = counters["global_step"]
        if state.get("reference"):
            self.set_reference(state["reference"])


@contextlib.contextmanager
def isolated_randomness(seed: int) -> Iterator[None]:
    """Seed torch's generators (CPU and CUDA) for the block.

    The states of random, NumPy and torch from before the block are restored after it.
    """
    python, numpy_ = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        # torch.manual_seed would keep a traceback for every device type that is missing.
        torch.default_generator.manual_seed(seed)
        if torch.cuda.is_available():
            torch.cuda.manual_seed_all(seed)
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy_)
