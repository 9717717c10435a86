"""TRL's GRPOTrainer alone on recorded samples."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch
from datasets import Dataset
from torch import Tensor
from transformers import PrinterCallback, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from srl_train.config.learning.learners import GrpoConfig
from srl_train.config.run import RunConfig
from srl_train.learners.trl_arguments import common_arguments
from srl_train.learners.upstream_warnings import quiet_upstream
from srl_train.samples import TokenSample

Update = tuple[Sequence[TokenSample], int]
"""Samples and seed of one update."""


class BareTrainer:
    """TRL's own loop on recorded updates of one model; nothing is saved or logged."""

    def __init__(
        self, model: Any, tokenizer: Any, config: RunConfig, updates: Sequence[Update]
    ) -> None:
        [size] = {len(samples) for samples, _ in updates}  # TRL requires equally many samples.
        self._updates = iter(updates)
        self.loop_seconds = 0.0
        """CPU time from the start of the first step to the end of the last one."""
        # Rewards are stored with the samples, as for our learner.
        with quiet_upstream():
            self._trainer = GRPOTrainer(
                model=model,
                reward_funcs=lambda prompts, completions, recorded_return, **_: recorded_return,
                args=_arguments(config, model, size, len(updates)),
                train_dataset=Dataset.from_list(
                    [{"prompt": "-"}] * max(4, config.rollout.groups_per_round)
                ),
                processing_class=tokenizer,
                rollout_func=self._recorded,
                callbacks=[_Stopwatch(self)],
            )
        self._trainer.remove_callback(PrinterCallback)

    def train(self) -> None:
        """Make all recorded updates in order; may be called once."""
        with quiet_upstream():
            self._trainer.train()

    def weights(self) -> dict[str, Tensor]:
        """Return name -> trainable parameter, detached."""
        parameters = self._trainer.model.named_parameters()
        return {name: tensor.detach() for name, tensor in parameters if tensor.requires_grad}

    def _recorded(self, prompts: Sequence[str], trainer: Any) -> dict[str, Any]:
        samples, seed = next(self._updates)
        torch.manual_seed(seed)  # TRL shuffles the batch next, as it did for our learner.
        return {
            "prompt_ids": [list(s.prompt_ids) for s in samples],
            "completion_ids": [list(s.completion_ids) for s in samples],
            "logprobs": [list(s.logprobs) for s in samples],
            "env_mask": [list(s.mask) for s in samples],
            "recorded_return": [s.episode_return for s in samples],
        }


class _Stopwatch(TrainerCallback):  # type: ignore[misc]
    def __init__(self, timed: BareTrainer) -> None:
        self._timed = timed

    def on_train_begin(self, *arguments: Any, **named: Any) -> None:
        self._timed.loop_seconds -= time.process_time()

    def on_train_end(self, *arguments: Any, **named: Any) -> None:
        self._timed.loop_seconds += time.process_time()


def _arguments(run: RunConfig, model: Any, samples: int, updates: int) -> GRPOConfig:
    config = run.algorithm
    assert isinstance(config, GrpoConfig)
    steps = updates * config.minibatches * config.num_iterations
    return GRPOConfig(
        **common_arguments(config, model, steps),
        logging_strategy="no",
        per_device_train_batch_size=samples // config.minibatches,
        steps_per_generation=config.minibatches,
        num_generations=run.rollout.group_size,
        num_iterations=config.num_iterations,
        temperature=run.models.sampling.temperature,
        epsilon=config.clip_range,
        beta=config.beta,
        loss_type=config.loss,
        scale_rewards=config.scale_rewards,
    )
