"""DPO learner on TRL's DPOTrainer, stepped from outside.

TRL keeps the losses, clipping, the schedule and the metrics. It is handed pairs as tokens. What
the model is held to is the model as it stood when the stage began: its log-probabilities of both
answers are computed once, by TRL, and no second model is kept.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import datasets
from datasets import Dataset
from torch import Tensor
from trl import DPOConfig as TrlDpoConfig
from trl import DPOTrainer

from srl_train.config.learning.offline import DpoConfig
from srl_train.data.preferences import COLUMNS, Preference, References
from srl_train.learners.trl_grpo import REFERENCE
from srl_train.learners.trl_offline import OfflineLearner
from srl_train.learners.upstream_warnings import quiet_upstream

_CONSTRUCTOR = "train"
"""How TRL calls the rows that its constructor is shown; batches are handed to each step."""


class PreparedDPOTrainer(DPOTrainer):  # type: ignore[misc]
    """DPOTrainer whose batches bring their tokens and reference log-probabilities."""

    def _prepare_dataset(
        self, dataset: Any, processing_class: Any, args: Any, dataset_name: str
    ) -> Any:
        if dataset_name == _CONSTRUCTOR:
            return dataset
        return super()._prepare_dataset(dataset, processing_class, args, dataset_name)

    def _precompute_ref_logps(self, dataset: Any, name: str, batch_size: int) -> Any:
        return dataset


class DpoLearner(OfflineLearner):
    """One model under DPO; see the Learner protocol for the methods."""

    TRAINER = PreparedDPOTrainer
    ARGUMENTS = TrlDpoConfig
    ROWS = (dict.fromkeys(COLUMNS, "-"),)
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
        """Rows of preference files as TRL itself tokenises them."""
        if not rows:
            return []
        with quiet_upstream(), _without_bars():
            trainer = self._trainer
            found = trainer._prepare_dataset(
                Dataset.from_list([dict(row) for row in rows]),
                trainer.processing_class,
                trainer.args,
                "preference",
            )
        return [Preference(*(tuple(row[f"{column}_ids"]) for column in COLUMNS)) for row in found]

    def reference_logprobs(self, samples: Sequence[Preference]) -> References:
        """See StageLearner; computed by TRL."""
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
        return self._collated(self._own(self._next_batch()))

    def _collated(self, batch: Sequence[Preference]) -> dict[str, Tensor]:
        rows = []
        for pair in batch:
            row: dict[str, Any] = {
                "prompt_ids": list(pair.prompt_ids),
                "chosen_ids": list(pair.chosen_ids),
                "rejected_ids": list(pair.rejected_ids),
            }
            if pair.reference is not None:
                row["ref_chosen_logps"], row["ref_rejected_logps"] = pair.reference
            rows.append(row)
        inputs: dict[str, Tensor] = self._trainer.data_collator(rows)
        return inputs


@contextlib.contextmanager
def _without_bars() -> Iterator[None]:
    """No progress bars of `datasets`, which would be drawn over ours."""
    shown = not datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        if shown:
            datasets.enable_progress_bars()
