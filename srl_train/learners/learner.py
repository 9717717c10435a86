"""The Learner protocol: one trainable model and its optimizer, stepped from outside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from torch import Tensor

    from srl_train.samples import TokenSample


LEARNER_ONLY = "critic."
"""Prefix of the names of parameters that only a learner has, next to those of its model."""


def model_weights(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors that samplers need: all except names that start with "critic."."""
    return {name: tensor for name, tensor in weights.items() if not name.startswith(LEARNER_ONLY)}


class Learned(NamedTuple):
    """Result of one update: metrics (see `end_update`) and skipped steps."""

    metrics: Mapping[str, float]
    left_out: Sequence[tuple[int, str]]
    """Skipped steps: (number from 0, first parameter whose gradient is not finite)."""


class Learner(Protocol):
    """One trainable model with its optimizer."""

    name: str
    """model_0, model_1, ..."""

    def learn(self, samples: Sequence[TokenSample], seed: int, version: int) -> Learned:
        """Run a whole update, and return its metrics and skipped steps.

        These are `begin_update`, all optimizer steps and `end_update`, with their errors. A step
        whose gradient is not finite is skipped.
        """

    def begin_update(self, samples: Sequence[TokenSample], seed: int, version: int) -> int:
        """Start one update and return the number of its optimizer steps.

        Args:
            samples: Samples in contiguous groups of equal size.
            seed: Seed of all randomness in the update.
            version: The model's update count. Samples may have older versions.

        Raises:
            TrainingError: If the learner cannot divide the samples into its steps.
        """

    def compute_gradients(self) -> dict[str, Tensor]:
        """Return the next step's unclipped gradients by name, of all parameters that have one.

        The weights are unchanged. Raises TrainingError if the loss is not finite.
        """

    def apply_gradients(self, gradients: Mapping[str, Tensor] | None) -> None:
        """Step optimizer and schedule with clipped copies of the gradients; None makes no step."""

    def end_update(self) -> dict[str, float]:
        """End the update, and return each metric's mean over the values that it recorded."""

    def weights(self) -> dict[str, Tensor]:
        """Return the trainable parameters by name: detached tensors that change with training."""

    def set_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Copy values, by parameter name, into the trainable parameters; others are unchanged."""

    def set_reference(self, weights: Mapping[str, Tensor]) -> None:
        """Copy `weights`, all trainable parameters by name, to the reference model, if any."""

    def save_model(self, folder: Any) -> None:
        """Write the model, for transformers or PEFT, and its tokenizer into the folder."""

    def state(self) -> dict[str, Any]:
        """Return everything that training changes, with tensors that are not copied.

        The entries are "weights", "optimizer" (its state_dict), "counters" (the schedule's position
        and step counts as plain data) and "reference" (weights of the reference model, or {}).
        """

    def refuse_state(self, state: Mapping[str, Any]) -> None:
        """Raise ValueError if `load_state` could not restore `state`; change nothing."""

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore a result of the method `state`, or its entries "optimizer" and "counters".

        Without "weights" or "reference", these are unchanged.
        """
