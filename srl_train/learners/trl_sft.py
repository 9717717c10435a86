"""SFT learner on TRL's SFTTrainer, stepped from outside.

TRL keeps the fused loss, clipping, the schedule and the metrics. It is handed conversations as
tokens, with labels; only how much each token counts is ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from trl import SFTConfig as TrlSftConfig
from trl import SFTTrainer

from srl_train import processes
from srl_train.config.learning.offline import SftConfig
from srl_train.data.demonstrations import Demonstration
from srl_train.learners.trl_offline import OfflineLearner

IGNORED = -100
"""The label of tokens without loss, in TRL as in torch."""


class WeightedSFTTrainer(SFTTrainer):  # type: ignore[misc]
    """SFTTrainer whose tokens have weights: its loss is the sum of -weight x log-probability.

    A batch brings `weights` (B, T) beside input_ids and labels; they are put on the
    log-probabilities as they leave the model, and TRL's own reduction does the rest.
    """

    def compute_loss(
        self,
        model: Any,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Any = None,
    ) -> Any:
        """The weighted sum; `num_items_in_batch` is not read, the weights are normalised."""
        batch = dict(inputs)
        weights: Tensor = batch.pop("weights")

        def weighted(module: Any, arguments: Any, output: Any) -> Any:
            output.log_probs = output.log_probs * weights[:, 1:]  # of the tokens to come
            return output

        hook = model.register_forward_hook(weighted)
        try:
            return super().compute_loss(model, batch, return_outputs, num_items_in_batch=1)
        finally:
            hook.remove()


class SftLearner(OfflineLearner):
    """One model under supervised learning; see the Learner protocol for the methods.

    loss = answer_weight x mean over answer tokens + observation_weight x mean over told tokens of
    the negative log-probability, means over the batch.
    """

    TRAINER = WeightedSFTTrainer
    ARGUMENTS = TrlSftConfig
    ROWS = ({"input_ids": [0, 0], "labels": [0, 0]},)
    _config: SftConfig

    def _own_arguments(self) -> dict[str, Any]:
        return {"dataset_kwargs": {"skip_prepare_dataset": True}}

    def _inputs(self) -> dict[str, Tensor]:
        batch: Sequence[Demonstration] = self._next_batch()
        weights: Sequence[list[float]] = self._weights(batch)
        batch, weights = self._own(batch), self._own(weights)
        rows = [
            {
                "input_ids": list(one.input_ids),
                "labels": [
                    token if weight else IGNORED
                    for token, weight in zip(one.input_ids, own, strict=True)
                ],
            }
            for one, own in zip(batch, weights, strict=True)
        ]
        inputs: dict[str, Tensor] = self._trainer.data_collator(rows)
        table = torch.zeros(inputs["input_ids"].shape)
        for row, own in zip(table, weights, strict=True):
            row[: len(own)] = torch.tensor(own)
        return {**inputs, "weights": table}

    def _weights(self, batch: Sequence[Demonstration]) -> list[list[float]]:
        """Per token, so that the weighted sum is the loss; the first token of a conversation is
        never predicted."""
        # TRL adds the processes' sums up. Those that all go through the whole batch count less.
        alike = processes.count() * len(self._own(batch)) / len(batch)
        answers = sum(sum(one.answers[1:]) for one in batch)
        observations = sum(sum(one.observations[1:]) for one in batch)
        answer = self._config.answer_weight / max(1, answers) / alike
        observation = self._config.observation_weight / max(1, observations) / alike
        return [
            [
                answer * is_answer + observation * is_observation
                for is_answer, is_observation in zip(one.answers, one.observations, strict=True)
            ]
            for one in batch
        ]
