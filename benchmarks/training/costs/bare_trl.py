"""TRL's GRPOTrainer by itself, on samples that were recorded: the reference of round_cost."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from typing import Any

import torch
from datasets import Dataset
from torch import Tensor
from transformers import PrinterCallback, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from benchmarks.training.costs.usage import now
from srl_train.config.learning.learners import GrpoConfig
from srl_train.config.run import RunConfig
from srl_train.samples import TokenSample
from srl_train.learners.upstream_warnings import quiet_upstream

Update = tuple[Sequence[TokenSample], int]
"""What one update trains on, and its seed."""


class BareTrainer:
    """`train()` on recorded updates, one model, TRL's own loop; nothing is saved or logged."""

    def __init__(
        self, model: Any, tokenizer: Any, config: RunConfig, updates: Sequence[Update]
    ) -> None:
        """Take `model` as it is; every update must have equally many samples."""
        sizes = {len(samples) for samples, _ in updates}
        if len(sizes) != 1:
            raise ValueError(f"updates of {sorted(sizes)} samples: TRL's are all of one size")
        self._updates = iter(updates)
        self._stopwatch = _Stopwatch()
        # Rewards travel beside the samples, as they do for our learner.
        with quiet_upstream():
            self._trainer = GRPOTrainer(
                model=model,
                reward_funcs=_recorded_return,
                args=_arguments(config, sizes.pop(), len(updates)),
                train_dataset=Dataset.from_list(
                    [{"prompt": "-"}] * max(4, config.rollout.groups_per_round)
                ),
                processing_class=tokenizer,
                rollout_func=self._recorded,
                callbacks=[self._stopwatch],
            )
        self._trainer.remove_callback(PrinterCallback)

    @property
    def loop_seconds(self) -> float:
        """From the first step's beginning to the last one's end, see `usage.now`."""
        return self._stopwatch.seconds

    def train(self) -> None:
        """Every update, in order."""
        with quiet_upstream():
            self._trainer.train()

    def weights(self) -> dict[str, Tensor]:
        """The trainable parameters by name."""
        parameters = self._trainer.model.named_parameters()
        return {name: tensor.detach() for name, tensor in parameters if tensor.requires_grad}

    def _recorded(self, prompts: Sequence[str], trainer: Any) -> dict[str, Any]:
        samples, seed = next(self._updates)
        torch.manual_seed(seed)  # TRL shuffles the batch next: as it did for our learner
        return {
            "prompt_ids": [list(s.prompt_ids) for s in samples],
            "completion_ids": [list(s.completion_ids) for s in samples],
            "logprobs": [list(s.logprobs) for s in samples],
            "env_mask": [list(s.mask) for s in samples],
            "recorded_return": [s.episode_return for s in samples],
        }


class _Stopwatch(TrainerCallback):  # type: ignore[misc]
    """Seconds between the beginning and the end of TRL's loop, see `usage.now`."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def on_train_begin(self, *arguments: Any, **named: Any) -> None:
        self.seconds -= now()

    def on_train_end(self, *arguments: Any, **named: Any) -> None:
        self.seconds += now()


def _recorded_return(
    prompts: Sequence[str], completions: Sequence[str], recorded_return: Sequence[float], **_: Any
) -> list[float]:
    return list(recorded_return)


def _arguments(run: RunConfig, samples: int, updates: int) -> GRPOConfig:
    config = run.algorithm
    assert isinstance(config, GrpoConfig)
    return GRPOConfig(
        output_dir=tempfile.gettempdir(),  # required; nothing is written there
        save_strategy="no",
        logging_strategy="no",
        report_to=[],
        disable_tqdm=True,
        use_cpu=not torch.cuda.is_available(),
        bf16=False,
        gradient_checkpointing=False,
        remove_unused_columns=False,
        dataloader_pin_memory=False,
        per_device_train_batch_size=samples // config.minibatches,
        steps_per_generation=config.minibatches,
        gradient_accumulation_steps=1,
        num_generations=run.rollout.group_size,
        num_iterations=config.num_iterations,
        max_steps=updates * config.minibatches * config.num_iterations,
        temperature=run.models.sampling.temperature,
        learning_rate=config.learning_rate,
        lr_scheduler_type=config.schedule,
        warmup_steps=config.warmup_steps,
        weight_decay=config.weight_decay,
        max_grad_norm=config.max_grad_norm,
        epsilon=config.clip_range,
        beta=config.beta,
        loss_type=config.loss,
        scale_rewards=config.scale_rewards,
    )
