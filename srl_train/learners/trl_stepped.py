"""Base class of learners: a TRL trainer stepped from outside, whatever its loss."""

from __future__ import annotations

import contextlib
import math
import random
import tempfile
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from srl_agents.llm.backends.huggingface.progress import no_bars
from srl_agents.seeding import of_step
from srl_train import fsdp, processes
from srl_train.checkpoints.tensor_tree import misfit, refuse_optimizer_state, refuse_unlike
from srl_train.config.learning.learners import OptimizerConfig
from srl_train.errors import TrainingError
from srl_train.learners.learner import Learned, Learner
from srl_train.learners.upstream_warnings import quiet_upstream
from srl_train.updates import not_finite


class Turns:
    """A lock that is handed on in the order in which threads came for it."""

    def __init__(self) -> None:
        self._line: deque[object] = deque()
        """Who holds it, and behind it who waits."""
        self._moved = threading.Condition()

    @contextlib.contextmanager
    def mine(self) -> Iterator[None]:
        """Inside, nobody else's turn is."""
        place = object()
        with self._moved:
            self._line.append(place)
        try:
            with self._moved:
                self._moved.wait_for(lambda: self._line[0] is place)
            yield
        finally:
            with self._moved:
                self._line.remove(place)
                self._moved.notify_all()


TURNS = Turns()
"""Learners of one process take turns, step by step: torch's and numpy's generators, accelerate's
GradientState and the warnings' filters are the process's, and a step sets them all."""


HELD_AS = {
    "beta": ("beta",),
    "entropy_coef": ("entropy_coef",),
    "clip_range": ("epsilon_low", "epsilon_high"),
}
"""Hyper-parameter -> the attributes that TRL's trainers read at every step."""


class SteppedLearner(Learner):
    """The part of the Learner protocol that does not depend on the loss.

    A subclass builds its trainer, hands it over once with `_step_from_outside`, says in
    `begin_update` what is trained on, and gives each step's input in `_inputs`.
    """

    def __init__(self, name: str, config: OptimizerConfig, model: Any, seed: int) -> None:
        """Before the trainer is built: TRL may add parameters of its own to `model`, a
        PreTrainedModel or PeftModel that stays ours; ours are those that train now."""
        self.name = name
        self._config = config
        self._names = [n for n, p in model.named_parameters() if p.requires_grad]
        self._seed = seed
        self._steps_done = 0

    def _step_from_outside(self, trainer: Any, planned_steps: int) -> None:
        """Give the trainer what its own loop would have set up, without letting it run."""
        if trainer.args.activation_checkpointing:
            options = dict(trainer.args.activation_checkpointing_kwargs or {})
            trainer.model.activation_checkpointing_enable(
                every_n_layers=options.pop("every_n_layers", 1),
                offload=options.pop("offload", False),
                activation_checkpointing_kwargs=options or None,
            )
        trainer.create_optimizer_and_scheduler(planned_steps)
        if fsdp.is_sharded(trainer.model):  # before it came here: nothing to wrap
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

    def parallelism(self) -> processes.Parallelism:
        """What the trainer really runs on."""
        accelerator = self._trainer.accelerator
        wrapped = isinstance(self._trainer.model_wrapped, DistributedDataParallel)
        return processes.Parallelism(
            processes=accelerator.num_processes,
            kind="fsdp" if fsdp.is_sharded(self._trainer.model)
            else "ddp" if wrapped else "single",
            device=accelerator.device.type,
            accelerate=accelerator.distributed_type.value,
        )  # fmt: skip

    def _own_arguments(self) -> dict[str, Any]:
        """What the configuration in TRL is told beside what all trainers are."""
        raise NotImplementedError

    def _inputs(self) -> Any:
        """What the trainer's training_step is given."""
        raise NotImplementedError

    def _begin(self, seed: int) -> None:
        """Start an update: all randomness of its steps is from `seed`, and nothing is left of an
        update that failed."""
        self._seed = seed
        self._steps_done = 0
        self._trainer._metrics["train"].clear()
        for parameter in self._parameters.values():
            parameter.grad = None

    def learn(self, samples: Sequence[Any], seed: int, version: int) -> Learned:
        """One update, all its steps, without a step whose gradient is not finite."""
        left_out = []
        for step in range(self.begin_update(samples, seed, version)):
            gradients = self.compute_gradients()
            broken = None if gradients is None else not_finite(gradients)
            if broken is not None:
                left_out.append((step, broken))
            self.apply_gradients(None if broken is not None else gradients)
        return Learned(self.end_update(), left_out)

    def compute_gradients(self) -> dict[str, Tensor] | None:
        """TRL's own forward, loss and backward for the next step, in as many parts as told."""
        trainer = self._trainer
        trainer.model.train()  # TRL tells training from evaluation by this
        parts = trainer.args.gradient_accumulation_steps
        loss = 0.0
        seed = of_step(self._seed, self._steps_done, processes.index())
        with TURNS.mine(), isolated_randomness(seed), quiet_upstream():
            for part in range(1, parts + 1):
                # As in the trainer's own loop: what is due once a step waits for its last part.
                trainer.accelerator.gradient_state._set_sync_gradients(part == parts)
                with self._averaging_gradients(part == parts):
                    loss += trainer.training_step(
                        trainer.model_wrapped, self._inputs(), None
                    ).item()
        self._steps_done += 1
        loss = processes.mean(loss)  # before it is looked at: no process may stop alone
        if not math.isfinite(loss):
            section, rate = self._config.where, self._config.learning_rate
            raise TrainingError(
                f"{self.name}: the loss is {loss}; lower {section}.learning_rate ({rate}) "
                "or look at the last episodes' rewards"
            )
        trainer._metrics["train"]["loss"].append(loss)
        # Copies made now lie apart from the activations that were just freed; the originals were
        # allocated among them and would keep their memory from going back. All are copied before
        # one is let go, or the next copy would take its place.
        gradients = {
            name: parameter.grad.clone()
            for name, parameter in self._parameters.items()
            if parameter.grad is not None
        }
        for parameter in self._parameters.values():
            parameter.grad = None
        beside = {n: own for n, own in gradients.items() if n not in self._names}
        return {**gradients, **processes.mean_tensors(beside)}

    def _averaging_gradients(self, last: bool) -> contextlib.AbstractContextManager[None]:
        """The processes' gradients are averaged in a step's last backward pass alone."""
        if last:
            return contextlib.nullcontext()
        accelerator, model = self._trainer.accelerator, self._trainer.model_wrapped
        waiting: contextlib.AbstractContextManager[None] = accelerator.no_sync(model)
        return waiting

    def apply_gradients(self, gradients: Mapping[str, Tensor] | None) -> None:
        """Clip to max_grad_norm, then one AdamW and schedule step."""
        if gradients is None:
            return  # no step at all: AdamW would move even on zeros
        trainer = self._trainer
        for name, gradient in gradients.items():
            # Clipping works in place, and averaged gradients are shared between models.
            parameter = self._parameters[name]
            parameter.grad = fsdp.like(gradient, parameter).clone()
        with TURNS.mine():
            norm = fsdp.full(trainer._clip_grad_norm(trainer.model_wrapped))
            trainer._metrics["train"]["grad_norm"].append(float(norm))
            trainer._metrics["train"]["learning_rate"].append(trainer.lr_scheduler.get_last_lr()[0])
            trainer.optimizer.step()
            trainer.lr_scheduler.step()
        trainer.state.global_step += 1
        for parameter in self._parameters.values():
            parameter.grad = None

    def end_update(self) -> dict[str, float]:
        """TRL's metrics since `begin_update`, averaged."""
        collected = self._trainer._metrics["train"]
        metrics = {name: sum(values) / len(values) for name, values in collected.items() if values}
        collected.clear()
        return processes.mean_metrics(metrics)

    def weights(self) -> dict[str, Tensor]:
        """The trainable parameters by name: the live tensors, detached."""
        return {name: parameter.detach() for name, parameter in self._parameters.items()}

    def set_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Copy the given values into the trainable parameters."""
        fsdp.let_go(self._trainer.model)
        with torch.no_grad():
            for name, value in weights.items():
                self._parameters[name].copy_(fsdp.like(value, self._parameters[name]))

    def reference(self) -> dict[str, Tensor]:
        """What holds the model back (a beta above 0), by parameter name: the live tensors; empty
        where nothing does."""
        return {}

    def set_reference(self, weights: Mapping[str, Tensor]) -> None:
        """Copy the given values into the reference, where there is one."""
        with torch.no_grad():
            for name, tensor in self.reference().items():
                tensor.copy_(weights[name])

    def save_model(self, folder: Path) -> None:
        """Write a Hugging Face folder, or a PEFT adapter, with the tokenizer beside it.

        Of several processes the main one writes; all must call it where they share the model.
        """
        model = self._trainer.accelerator.unwrap_model(self._trainer.model)
        own: dict[str, Any] = {}
        if hasattr(model, "peft_config"):
            # Nothing here resizes embeddings, and PEFT would ask the hub whether something has.
            own |= {"selected_adapters": ["default"], "save_embedding_layers": False}
        if fsdp.is_sharded(model):
            own["state_dict"] = fsdp.whole_state_dict(model)
        if processes.is_main():
            with no_bars():
                model.save_pretrained(folder, **own)
            self._trainer.processing_class.save_pretrained(folder)

    def optimizer_state(self) -> dict[str, Any]:
        """AdamW's state_dict."""
        state: dict[str, Any] = self._trainer.optimizer.state_dict()
        return state

    def load_optimizer_state(self, state: Mapping[str, Any]) -> None:
        """Restore AdamW's moments and step counts."""
        optimizer = self._trainer.optimizer
        optimizer.load_state_dict(fsdp.optimizer_state_like(state, optimizer))

    def refuse_state(self, state: Mapping[str, Any]) -> None:
        """Raise ValueError unless keys, shapes and dtypes are those of this learner's own state."""
        if wrong := misfit(state["weights"], self.weights()):
            raise ValueError(f"weights: {wrong}")
        if state["reference"] and (wrong := misfit(state["reference"], self.reference())):
            raise ValueError(f"reference: {wrong}")
        refuse_optimizer_state(state["optimizer"], self._trainer.optimizer)
        refuse_unlike(state["counters"], self._first_counters(), "counters")

    def _first_counters(self) -> dict[str, Any]:
        """Return counters of which every value that may be None is None."""
        return self.counters()

    def hyperparameters(self) -> dict[str, float]:
        """Those that `scale` takes, as they are now."""
        own = {name: getattr(self._trainer, held[0], None) for name, held in HELD_AS.items()}
        rates = self._trainer.lr_scheduler.base_lrs
        return {"learning_rate": rates[0], **{n: v for n, v in own.items() if v is not None}}

    def scale(self, factors: Mapping[str, float]) -> None:
        """Multiply these hyper-parameters; the learning rate over its whole schedule."""
        trainer = self._trainer
        for name, factor in factors.items():
            for attribute in HELD_AS.get(name, ()):
                setattr(trainer, attribute, getattr(trainer, attribute) * factor)
        factor = factors.get("learning_rate", 1.0)
        for group in trainer.optimizer.param_groups:
            group["lr"], group["initial_lr"] = group["lr"] * factor, group["initial_lr"] * factor
        schedule = trainer.lr_scheduler
        schedule.base_lrs = [rate * factor for rate in schedule.base_lrs]
        schedule._last_lr = [rate * factor for rate in schedule._last_lr]

    def counters(self) -> dict[str, Any]:
        """The schedule's state_dict (its plain numbers), the optimizer steps so far, and the
        hyper-parameters that the trainer holds."""
        schedule = self._trainer.lr_scheduler.state_dict()
        plain = {k: v for k, v in schedule.items() if isinstance(v, int | float | list | bool)}
        return {
            "schedule": plain,
            "global_step": self._trainer.state.global_step,
            "held": {
                attribute: getattr(self._trainer, attribute)
                for attributes in HELD_AS.values()
                for attribute in attributes
                if hasattr(self._trainer, attribute)
            },
        }

    def load_counters(self, counters: Mapping[str, Any]) -> None:
        """Restore what `counters` gave."""
        self._trainer.lr_scheduler.load_state_dict(dict(counters["schedule"]))
        self._trainer.state.global_step = counters["global_step"]
        for attribute, value in counters["held"].items():
            setattr(self._trainer, attribute, value)


def common_arguments(
    config: OptimizerConfig, model: Any, steps: int, accumulation: int = 1
) -> dict[str, Any]:
    """The TrainingArguments that every learner sets alike."""
    return {
        # Required by transformers; nothing is written there: we save, log and report ourselves.
        "output_dir": str(Path(tempfile.gettempdir()) / "core-srl-unused"),
        "save_strategy": "no",
        "report_to": [],
        "disable_tqdm": True,
        "use_cpu": next(model.parameters()).device.type == "cpu",
        "bf16": False,
        "activation_checkpointing": False,
        "remove_unused_columns": False,
        "dataloader_pin_memory": False,
        "gradient_accumulation_steps": accumulation,
        "max_steps": steps,
        "learning_rate": config.learning_rate,
        "lr_scheduler_type": config.schedule,
        "warmup_steps": config.warmup_steps,
        "weight_decay": config.weight_decay,
        "max_grad_norm": config.max_grad_norm,
    }


@contextlib.contextmanager
def isolated_randomness(seed: int) -> Iterator[None]:
    """Inside, the global generators that TRL draws from start at `seed`; outside, untouched."""
    python, numpy_ = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        # torch.manual_seed would keep a traceback for every kind of device that is not there.
        torch.default_generator.manual_seed(seed)
        if torch.cuda.is_available():
            torch.cuda.manual_seed_all(seed)
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy_)
