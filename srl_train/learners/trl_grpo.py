"""GRPO by TRL's own GRPOTrainer, stepped from outside.

TRL keeps the advantages, the clipped loss, the reference model, clipping, the schedule and the
metrics. It is handed episodes that were already played, through its `rollout_func`, and never
runs a loop of its own.
"""

from __future__ import annotations

import contextlib
import random
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from torch import Tensor
from trl import GRPOConfig, GRPOTrainer

from srl_train.config import GrpoConfig
from srl_train.errors import TrainingError
from srl_train.learners.constraints import ConstrainedLogProbs
from srl_train.learners.upstream_warnings import quiet_upstream
from srl_train.samples import TokenSample

# One dataset row per sample is all TRL wants to know; the tokens come through rollout_func.
_ROW = {"prompt": "-"}


class PlayedGRPOTrainer(ConstrainedLogProbs, GRPOTrainer):  # type: ignore[misc]
    """GRPOTrainer for samples that need more than the current policy's own free choice.

    - Samples from older weights: the ratio is taken to the log-probabilities as sampled.
    - Constrained choices: log-probabilities are renormalised over the ids that were allowed
      (`ConstrainedLogProbs`).
    """

    from_older_weights: bool = False

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        batch: dict[str, Any] = super()._generate_and_score_completions(inputs)
        if self.from_older_weights:
            batch["old_per_token_logps"] = batch["sampling_per_token_logps"]
        return batch


class GrpoLearner:
    """One model under GRPO; see the Learner protocol for the methods."""

    def __init__(
        self,
        name: str,
        model: Any,
        tokenizer: Any,
        config: GrpoConfig,
        *,
        temperature: float,
        planned_updates: int,
        replays: bool = False,
        seed: int = 0,
    ) -> None:
        """Build the trainer around `model`, a PreTrainedModel or PeftModel that stays ours.

        `temperature` is what the samples are drawn at, `planned_updates` the length of the
        learning-rate schedule in updates; `replays` says that samples may be constrained or
        stem from older weights.
        """
        self.name = name
        self._config = config
        self._samples: Sequence[TokenSample] = ()
        # TRL adds a frozen reference adapter of its own where beta > 0: ours are those of now.
        self._names = [n for n, p in model.named_parameters() if p.requires_grad]
        self._replays = replays
        steps = planned_updates * config.minibatches * config.iterations
        with isolated_randomness(seed), quiet_upstream():
            trainer_class = PlayedGRPOTrainer if replays else GRPOTrainer
            self._trainer = trainer_class(
                model=model,
                reward_funcs=_played_return,
                args=_arguments(config, temperature, steps, model),
                train_dataset=Dataset.from_list([_ROW] * 4),
                processing_class=tokenizer,
                rollout_func=lambda prompts, trainer: self._played(),
            )
            self._trainer.create_optimizer_and_scheduler(steps)
        trainer = self._trainer
        trainer.model_wrapped, trainer.optimizer = trainer.accelerator.prepare(
            trainer.model, trainer.optimizer
        )
        trainer.current_gradient_accumulation_steps = 1
        parameters = dict(trainer.model.named_parameters())
        self._parameters = {n: parameters[n] for n in self._names}
        self._seed = seed
        self._steps_done = 0

    @property
    def steps_per_update(self) -> int:
        """Optimizer steps of one update."""
        return self._config.minibatches * self._config.iterations

    def begin_update(self, samples: Sequence[TokenSample], seed: int, version: int) -> int:
        """Take the samples of one update; returns its number of optimizer steps.

        `version` is the model's update count now: ratios of samples from older weights are taken
        to the log-probabilities as sampled. Raises TrainingError where the samples do not divide
        into groups and minibatches.
        """
        for what, size in (
            ("grpo.group_size", self._config.group_size),
            ("grpo.minibatches", self._config.minibatches),
        ):
            if not samples or len(samples) % size:
                raise TrainingError(
                    f"{self.name} has {len(samples)} samples for an update: "
                    f"give a multiple of {what} ({size})"
                )
        self._samples = samples
        self._seed = seed
        self._steps_done = 0
        if self._replays:
            self._trainer.from_older_weights = any(s.version != version for s in samples)
            self._trainer.allow(samples)
        self._trainer._step = 0  # a multiple of its generation period: it asks for our samples
        return self.steps_per_update

    def compute_gradients(self) -> dict[str, Tensor]:
        """TRL's own forward, loss and backward for the next step."""
        trainer = self._trainer
        trainer.model.train()  # TRL tells training from evaluation by this
        rows = [dict(_ROW) for _ in self._samples]  # apart: TRL writes each one's reward into it
        with isolated_randomness(self._seed + self._steps_done), quiet_upstream():
            loss = trainer.training_step(trainer.model_wrapped, rows, None)
        self._steps_done += 1
        if not torch.isfinite(loss):
            raise TrainingError(
                f"{self.name}: the loss is {loss.item()}; lower grpo.learning_rate "
                f"({self._config.learning_rate}) or look at the last episodes' rewards"
            )
        trainer._metrics["train"]["loss"].append(loss.item())
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
        return gradients

    def apply_gradients(self, gradients: Mapping[str, Tensor] | None) -> None:
        """Clip to max_grad_norm, then one AdamW and schedule step."""
        if gradients is None:
            return  # no step at all: AdamW would move even on zeros
        trainer = self._trainer
        for name, gradient in gradients.items():
            # Clipping works in place, and averaged gradients are shared between models.
            self._parameters[name].grad = gradient.clone()
        norm = trainer._clip_grad_norm(trainer.model_wrapped)
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
        self._samples = ()
        self._trainer._buffered_inputs = None
        return metrics

    def weights(self) -> dict[str, Tensor]:
        """The trainable parameters by name: the live tensors, detached."""
        return {name: parameter.detach() for name, parameter in self._parameters.items()}

    def set_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Copy the given values into the trainable parameters."""
        with torch.no_grad():
            for name, value in weights.items():
                self._parameters[name].copy_(value)

    def save_model(self, folder: Path) -> None:
        """Write a Hugging Face folder, or a PEFT adapter, with the tokenizer beside it."""
        model = self._trainer.accelerator.unwrap_model(self._trainer.model)
        adapters = {"selected_adapters": ["default"]} if hasattr(model, "peft_config") else {}
        model.save_pretrained(folder, **adapters)
        self._trainer.processing_class.save_pretrained(folder)

    def optimizer_state(self) -> dict[str, Any]:
        """AdamW's state_dict."""
        state: dict[str, Any] = self._trainer.optimizer.state_dict()
        return state

    def load_optimizer_state(self, state: Mapping[str, Any]) -> None:
        """Restore AdamW's moments and step counts."""
        self._trainer.optimizer.load_state_dict(state)

    def counters(self) -> dict[str, Any]:
        """The schedule's state_dict (its plain numbers) and the optimizer steps so far."""
        schedule = self._trainer.lr_scheduler.state_dict()
        plain = {k: v for k, v in schedule.items() if isinstance(v, int | float | list | bool)}
        return {"schedule": plain, "global_step": self._trainer.state.global_step}

    def load_counters(self, counters: Mapping[str, Any]) -> None:
        """Restore what `counters` gave."""
        self._trainer.lr_scheduler.load_state_dict(dict(counters["schedule"]))
        self._trainer.state.global_step = counters["global_step"]

    def _played(self) -> dict[str, Any]:
        samples = self._samples
        return {
            "prompt_ids": [list(s.prompt_ids) for s in samples],
            "completion_ids": [list(s.completion_ids) for s in samples],
            "logprobs": [list(s.logprobs) for s in samples],
            "env_mask": [list(s.mask) for s in samples],
            "played_return": [s.reward for s in samples],
        }


def _played_return(
    prompts: Sequence[str], completions: Sequence[str], played_return: Sequence[float], **_: Any
) -> list[float]:
    return list(played_return)


def _arguments(config: GrpoConfig, temperature: float, steps: int, model: Any) -> GRPOConfig:
    device = next(model.parameters()).device.type
    schedules = {"constant": "constant", "linear": "linear", "cosine": "cosine"}
    return GRPOConfig(
        # Required by transformers; nothing is written there: we save, log and report ourselves.
        output_dir=str(Path(tempfile.gettempdir()) / "core-srl-unused"),
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        use_cpu=device == "cpu",
        bf16=False,
        gradient_checkpointing=False,
        remove_unused_columns=False,
        dataloader_pin_memory=False,
        per_device_train_batch_size=config.group_size,
        steps_per_generation=config.minibatches,
        gradient_accumulation_steps=1,
        num_generations=config.group_size,
        num_iterations=config.iterations,
        max_steps=steps,
        temperature=temperature,
        learning_rate=config.learning_rate,
        lr_scheduler_type=schedules[config.schedule],
        warmup_steps=config.warmup_steps,
        weight_decay=config.weight_decay,
        max_grad_norm=config.max_grad_norm,
        epsilon=config.clip,
        beta=config.beta,
        loss_type=config.loss,
        scale_rewards=config.scale_rewards,
    )


@contextlib.contextmanager
def isolated_randomness(seed: int) -> Iterator[None]:
    """Inside, the global generators that TRL draws from start at `seed`; outside, untouched."""
    python, numpy_ = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(seed)
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy_)
