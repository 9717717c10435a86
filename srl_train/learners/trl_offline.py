"""Learners from fixed data on TRL trainers: the parts shared by SFT and DPO."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from datasets import Dataset

from srl_train import processes
from srl_train.config.learning.offline import OfflineConfig
from srl_train.data.preferences import Preference, References
from srl_train.learners.trl_stepped import SteppedLearner, common_arguments, isolated_randomness
from srl_train.learners.upstream_warnings import quiet_upstream

T = TypeVar("T")


class OfflineLearner(SteppedLearner):
    """One model on a fixed list of samples; an update is one pass over it in batches.

    Used in a `with` block: TRL puts a forward of its own on the model, and afterwards the model
    gets back the one that it came with, which other learners of the same model rely on.
    """

    _config: OfflineConfig
    TRAINER: ClassVar[Callable[..., Any]]
    ARGUMENTS: ClassVar[Callable[..., Any]]
    """The trainer's configuration in TRL."""
    ROWS: ClassVar[Sequence[Mapping[str, Any]]]
    """All that TRL's constructor looks at; batches are handed to each step."""

    def __init__(
        self,
        name: str,
        model: Any,
        tokenizer: Any,
        config: OfflineConfig,
        *,
        planned_steps: int,
        seed: int = 0,
    ) -> None:
        """Build the trainer around `model`, a PreTrainedModel or PeftModel that stays ours;
        `planned_steps` is the length of the learning-rate schedule."""
        super().__init__(name, config, model, seed)
        self._model = model
        self._patched = model.get_base_model() if hasattr(model, "peft_config") else model
        self._forward = vars(self._patched).get("forward")
        self._batches: list[list[Any]] = []
        self.losses: list[float] = []
        """Of the last update, step by step."""
        with isolated_randomness(seed), quiet_upstream():
            trainer = self.TRAINER(
                model=model,
                args=self.ARGUMENTS(
                    **common_arguments(config, model, planned_steps),
                    per_device_train_batch_size=config.batch_size,
                    max_length=None,
                    **self._own_arguments(),
                ),
                train_dataset=self._rows(),
                processing_class=tokenizer,
            )
            self._step_from_outside(trainer, planned_steps)

    @classmethod
    @cache
    def _rows(cls) -> Dataset:
        return Dataset.from_list(list(cls.ROWS))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        if self._forward is None:
            vars(self._patched).pop("forward", None)
        else:
            self._patched.forward = self._forward

    def tokenised(self, rows: Sequence[Mapping[str, Any]]) -> list[Preference]:
        """See StageLearner."""
        raise NotImplementedError

    def reference_logprobs(self, samples: Sequence[Any]) -> References | None:
        """See StageLearner."""
        return None

    def begin_update(self, samples: Sequence[Any], seed: int, version: int) -> int:
        """One pass over the samples, in an order drawn from `seed`; returns its steps."""
        self._begin(seed)
        order = np.random.default_rng(seed).permutation(len(samples))
        size = self._config.batch_size
        self._batches = [
            [samples[index] for index in order[start : start + size]]
            for start in range(0, len(samples), size)
        ]
        return len(self._batches)

    def end_update(self) -> dict[str, float]:
        """TRL's metrics since `begin_update`, averaged."""
        self._batches = []
        self.losses = list(self._trainer._metrics["train"]["loss"])
        metrics = super().end_update()
        metrics.pop("num_tokens", None)  # of the trainer's life, which ends when a run is stopped
        return metrics

    def _own(self, batch: Sequence[T]) -> Sequence[T]:
        """This process's share of a batch; all of it where equal shares are not to be had."""
        return batch if len(batch) % processes.count() else processes.share_of(batch)

    def _next_batch(self) -> list[Any]:
        return self._batches[self._steps_done]
