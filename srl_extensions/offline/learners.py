"""SFT and DPO learners on TRL's SFTTrainer and DPOTrainer, stepped from outside.

TRL computes the losses, clipping, the schedule and the metrics. It receives conversations and pairs
as tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import torch
from datasets import Dataset
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from trl import DPOConfig as TrlDpoConfig
from trl import DPOTrainer, SFTTrainer
from trl import SFTConfig as TrlSftConfig

from srl_extensions.offline.config import DpoConfig, OfflineConfig, SftConfig
from srl_extensions.offline.data import COLUMNS, Demonstration, Preference, References
from srl_train import processes
from srl_train.learners.trl_arguments import common_arguments
from srl_train.learners.trl_grpo import REFERENCE
from srl_train.learners.trl_stepped import SteppedLearner, isolated_randomness
from srl_train.learners.upstream_warnings import quiet_upstream

T = TypeVar("T")
IGNORED = -100
"""Label of tokens without loss, in TRL as in torch."""


class OfflineLearner(SteppedLearner):
    """Base class of learners from a fixed list of samples; an update is one pass in batches.

    Used in a `with` block: TRL replaces the model's forward method, and the end of the block
    restores it. `planned_steps` is the number of optimizer steps of the learning-rate schedule.
    """

    _config: OfflineConfig
    TRAINER: ClassVar[Callable[..., Any]]
    ARGUMENTS: ClassVar[Callable[..., Any]]
    """Class of the trainer's configuration in TRL."""
    ROW: ClassVar[Mapping[str, Any]]
    """Row of the dataset that TRL's constructor requires; not used in training."""

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
        super().__init__(name, config, model, seed)
        self._model = model
        self._patched = model.get_base_model() if hasattr(model, "peft_config") else model
        self._forward = vars(self._patched).get("forward")
        self._batches: list[list[Any]] = []
        self.losses: list[float] = []
        with ExitStack() as on_error, isolated_randomness(seed), quiet_upstream():
            on_error.enter_context(self)
            trainer = self.TRAINER(
                model=model,
                args=self.ARGUMENTS(
                    **common_arguments(config, model, planned_steps),
                    per_device_train_batch_size=config.batch_size,
                    max_length=None,
                    **self._own_arguments(),
                ),
                train_dataset=Dataset.from_list([dict(self.ROW)]),
                processing_class=tokenizer,
            )
            self._step_from_outside(trainer, planned_steps)
            on_error.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        if self._forward is None:
            vars(self._patched).pop("forward", None)
        else:
            self._patched.forward = self._forward

    def begin_update(self, samples: Sequence[Any], seed: int, version: int) -> int:
        self._begin(seed)
        order = np.random.default_rng(seed).permutation(len(samples))
        size = self._config.batch_size
        self._batches = [
            [samples[index] for index in order[start : start + size]]
            for start in range(0, len(samples), size)
        ]
        return len(self._batches)

    def end_update(self) -> dict[str, float]:
        self._batches = []
        self.losses = list(self._trainer._metrics["train"]["loss"])
        metrics = super().end_update()
        metrics.pop("num_tokens", None)  # counts from the trainer's start, so a resume changes it
        return metrics

    def state(self) -> dict[str, Any]:
        state = super().state()
        return {part: state[part] for part in ("optimizer", "counters")}

    def _share(self, batch: Sequence[T]) -> Sequence[T]:
        return batch if len(batch) % processes.count() else processes.share_of(batch)


class WeightedSFTTrainer(SFTTrainer):  # type: ignore[misc]
    """SFTTrainer with token weights: its loss is the sum of -weight x log-probability.

    A batch contains `weights` (B, T), one per token; those of the first token have no effect.
    """

    def compute_loss(
        self,
        model: Any,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Any = None,
    ) -> Any:
        batch = dict(inputs)
        weights: Tensor = batch.pop("weights")

        def weighted(module: Any, arguments: Any, output: Any) -> Any:
            output.log_probs = output.log_probs * weights[:, 1:]  # of the next tokens
            return output

        hook = model.register_forward_hook(weighted)
        try:
            return super().compute_loss(model, batch, return_outputs, num_items_in_batch=1)
        finally:
            hook.remove()


class SftLearner(OfflineLearner):
    """Learner of one model by supervised learning on Demonstrations.

    loss = answer_weight x mean over answer tokens + observation_weight x mean over observation
    tokens of the negative log-probability, means over the batch.
    """

    TRAINER = WeightedSFTTrainer
    ARGUMENTS = TrlSftConfig
    ROW: ClassVar = {"input_ids": [0, 0], "labels": [0, 0]}
    _config: SftConfig

    def _own_arguments(self) -> dict[str, Any]:
        return {"dataset_kwargs": {"skip_prepare_dataset": True}}

    def _inputs(self) -> dict[str, Tensor]:
        batch: Sequence[Demonstration] = self._batches[self._steps_done]
        own = self._share(batch)
        # TRL adds the processes' sums. Processes that all train on the whole batch count less.
        alike = processes.count() * len(own) / len(batch)
        # The first token of a conversation is never predicted.
        answers = max(1, sum(sum(one.answers[1:]) for one in batch))
        observations = max(1, sum(sum(one.observations[1:]) for one in batch))
        answer = self._config.answer_weight / answers / alike
        observation = self._config.observation_weight / observations / alike
        weights = [
            answer * np.array(one.answers) + observation * np.array(one.observations) for one in own
        ]
        rows = [
            {
                "input_ids": list(one.input_ids),
                "labels": np.where(values, one.input_ids, IGNORED).tolist(),
            }
            for one, values in zip(own, weights, strict=True)
        ]
        inputs: dict[str, Tensor] = self._trainer.data_collator(rows)
        tables = [torch.tensor(values, dtype=torch.float32) for values in weights]
        return {**inputs, "weights": pad_sequence(tables, batch_first=True)}


class PreparedDPOTrainer(DPOTrainer):  # type: ignore[misc]
    """DPOTrainer for batches that already contain tokens and reference log-probabilities."""

    def _prepare_dataset(
        self, dataset: Any, processing_class: Any, args: Any, dataset_name: str
    ) -> Any:
        if dataset_name == "train":  # the rows of the constructor
            return dataset
        return super()._prepare_dataset(dataset, processing_class, args, dataset_name)

    def _precompute_ref_logps(self, dataset: Any, name: str, batch_size: int) -> Any:
        return dataset


class DpoLearner(OfflineLearner):
    """Learner of one model by DPO on Preferences.

    The reference is the model at the start of the stage. Samples need its log-probabilities as
    `reference`; `reference_logprobs` returns them.
    """

    TRAINER = PreparedDPOTrainer
    ARGUMENTS = TrlDpoConfig
    ROW: ClassVar = dict.fromkeys(COLUMNS, "-")
    _config: DpoConfig

    def _own_arguments(self) -> dict[str, Any]:
        return {
            "precompute_ref_log_probs": True,
            "disable_dropout": False,  # it would stay disabled after the stage
            "beta": self._config.beta,
            "loss_type": [self._config.loss],
            "label_smoothing": self._config.label_smoothing,
        }

    def __exit__(self, *reason: object) -> None:
        super().__exit__(*reason)
        if REFERENCE in getattr(self._model, "peft_config", ()):
            self._model.delete_adapter(REFERENCE)

    def tokenised(self, rows: Sequence[Mapping[str, Any]]) -> list[Preference]:
        if not rows:
            return []
        trainer = self._trainer
        given = Dataset.from_list([dict(row) for row in rows])
        with quiet_upstream():
            found = trainer._prepare_dataset(
                given, trainer.processing_class, trainer.args, "preference"
            )
        return [Preference(*(tuple(row[f"{column}_ids"]) for column in COLUMNS)) for row in found]

    def reference_logprobs(self, samples: Sequence[Preference]) -> References:
        trainer = self._trainer
        trainer.model.eval()
        found: list[tuple[float, float]] = []
        with quiet_upstream():
            for start in range(0, len(samples), self._config.batch_size):
                batch = samples[start : start + self._config.batch_size]
                inputs = trainer._prepare_inputs(self._collated(batch))
                chosen, rejected = trainer.compute_ref_log_probs(trainer.model, inputs)
                found += zip(map(float, chosen), map(float, rejected), strict=True)
        return found

    def _inputs(self) -> dict[str, Tensor]:
        return self._collated(self._share(self._batches[self._steps_done]))

    def _collated(self, batch: Sequence[Preference]) -> dict[str, Tensor]:
        rows = []
        for pair in batch:
            row: dict[str, Any] = {f"{c}_ids": list(getattr(pair, f"{c}_ids")) for c in COLUMNS}
            if pair.reference is not None:
                row["ref_chosen_logps"], row["ref_rejected_logps"] = pair.reference
            rows.append(row)
        inputs: dict[str, Tensor] = self._trainer.data_collator(rows)
        return inputs
