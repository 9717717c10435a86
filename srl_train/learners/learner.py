"""The Learner protocol: one trainable model and its optimizer, stepped from outside.

Update strategies work on the gradients of all models between `compute_gradients` and
`apply_gradients`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from torch import Tensor

    from srl_train.samples import TokenSample


LEARNER_ONLY = "critic."
"""Prefix of the names of parameters that only a learner has, next to those of its model."""


def model_weights(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the named tensors that samplers need, all but those of the learner ("critic.")."""
    return {name: tensor for name, tensor in weights.items() if not name.startswith(LEARNER_ONLY)}


class Learned(NamedTuple):
    """Result of one update: metrics by name, and the optimizer steps that were skipped."""

    metrics: Mapping[str, float]
    left_out: Sequence[tuple[int, str]]
    """Skipped optimizer steps: (number, parameter with a gradient that is not finite)."""


class Learner(Protocol):
    """One trainable model with its optimizer."""

    name: str
    """model_0, model_1, ..."""

    def learn(self, samples: Sequence[TokenSample], seed: int, version: int) -> Learned:
        """Run `begin_update`, all steps and `end_update`; return metrics and skipped steps."""

    def begin_update(self, samples: Sequence[TokenSample], seed: int, version: int) -> int:
        """Start one update and return the number of its optimizer steps.

        Args:
            samples: Samples in contiguous groups of equal size.
            seed: Seed of all randomness in the update.
            version: The model's update count. Samples may come from older versions.
        """

    def compute_gradients(self) -> dict[str, Tensor]:
        """Return the next step's unclipped gradients by name. TrainingError: loss not finite."""

    def apply_gradients(self, gradients: Mapping[str, Tensor] | None) -> None:
        """Clip by norm, then step optimizer and scheduler once; None makes neither step."""

    def end_update(self) -> dict[str, float]:
        """End the update, and return metric -> its mean over the update's steps."""

    def weights(self) -> dict[str, Tensor]:
        """Return the trainable parameters by name: the live tensors, detached."""

    def set_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Copy values, by parameter name, into the trainable parameters; others are unchanged."""

    def set_reference(self, weights: Mapping[str, Tensor]) -> None:
        """Copy values, by parameter name, into the reference model, if there is one."""

    def save_model(self, folder: Any) -> None:
        """Write the model into `folder` in the format of transformers, or as a PEFT adapter."""

    def state(self) -> dict[str, Any]:
        """Return everything that training changes, with live tensors.

        The entries are "weights", "optimizer" (its state_dict), "counters" (the schedule's position
        and step counts as plain data) and "reference" (the weights of the reference model; empty
        without one).
        """

    def refuse_state(self, state: Mapping[str, Any]) -> None:
        """Raise ValueError unless `load_state` can load the state; change nothing."""

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore a result of `state`; without "weights" or "reference", these are kept."""
