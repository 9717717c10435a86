"""The Learner protocol: one trainable model and its optimizer, stepped from outside.

Between `compute_gradients` and `apply_gradients` all models meet: that is where the update
strategies work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, Self

from torch import Tensor

from srl_train.data.preferences import Preference, References
from srl_train.processes import Parallelism
from srl_train.samples import TokenSample


class Learned(NamedTuple):
    """What came of one update."""

    metrics: Mapping[str, float]
    left_out: Sequence[tuple[int, str]]
    """Optimizer steps that were not taken: (number, the parameter whose gradient was not
    finite)."""


class Learner(Protocol):
    """One model that learns."""

    name: str
    """model_0, model_1, ..."""

    def learn(self, samples: Sequence[TokenSample], seed: int, version: int) -> Learned:
        """One update, all its steps, each with the model's own gradients; see `begin_update`.

        A step whose gradient is not finite is not taken.
        """
        ...

    def begin_update(self, samples: Sequence[TokenSample], seed: int, version: int) -> int:
        """Take the samples of one update; returns how many optimizer steps it will be at most.

        Groups are contiguous and of equal size. All randomness of the update is from `seed`;
        `version` is the model's update count now, which samples may lag behind.
        """
        ...

    def compute_gradients(self) -> dict[str, Tensor] | None:
        """The next step's gradients by parameter name, not yet clipped, owned by the caller.

        None where the learner wants no further step of this update; the rest are None too.
        """
        ...

    def apply_gradients(self, gradients: Mapping[str, Tensor] | None) -> None:
        """Clip, then one optimizer and scheduler step; None leaves the model as it is."""
        ...

    def end_update(self) -> dict[str, float]:
        """The update's metrics, averaged over its steps."""
        ...

    def weights(self) -> dict[str, Tensor]:
        """The trainable parameters by name: the live tensors, detached."""
        ...

    def set_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Copy the given values into the trainable parameters."""
        ...

    def reference(self) -> dict[str, Tensor]:
        """What holds the model back, by parameter name: the live tensors; empty without any."""
        ...

    def set_reference(self, weights: Mapping[str, Tensor]) -> None:
        """Copy the given values into the reference, where there is one."""
        ...

    def save_model(self, folder: Any) -> None:
        """Write the model as its users load it: a Hugging Face folder, or a PEFT adapter."""
        ...

    def optimizer_state(self) -> dict[str, Any]:
        """The optimizer's state_dict."""
        ...

    def load_optimizer_state(self, state: Mapping[str, Any]) -> None:
        """Restore what `optimizer_state` gave."""
        ...

    def refuse_state(self, state: Mapping[str, Any]) -> None:
        """Raise ValueError unless `restore` can load the state; change nothing."""
        ...

    def counters(self) -> dict[str, Any]:
        """Plain data: schedule position and step counts."""
        ...

    def hyperparameters(self) -> dict[str, float]:
        """Those that `scale` takes, as they are now; `counters` and `optimizer_state` hold them."""
        ...

    def scale(self, factors: Mapping[str, float]) -> None:
        """Multiply these hyper-parameters, by their names in the configuration."""
        ...

    def parallelism(self) -> Parallelism:
        """What it really runs on: how many processes, sharing the model how."""
        ...

    def load_counters(self, counters: Mapping[str, Any]) -> None:
        """Restore what `counters` gave."""
        ...


def state_of(learner: Learner) -> dict[str, Any]:
    """All that training changes of it; the live tensors."""
    return {
        "weights": learner.weights(),
        "optimizer": learner.optimizer_state(),
        "counters": learner.counters(),
        "reference": learner.reference(),
    }


def restore(learner: Learner, state: Mapping[str, Any]) -> None:
    """Put it where `state_of` found it, or another of the same model."""
    learner.set_weights(state["weights"])
    learner.load_optimizer_state(state["optimizer"])
    learner.load_counters(state["counters"])
    if state["reference"]:
        learner.set_reference(state["reference"])


class StageLearner(Learner, Protocol):
    """One model that learns from fixed data, in a `with` block; an update is one pass over it.

    Afterwards the model learns in rounds again, with the Learner that it has for them.
    """

    losses: list[float]
    """Of the last update, step by step."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *reason: object) -> None: ...

    def tokenised(self, rows: Sequence[Mapping[str, Any]]) -> list[Preference]:
        """Rows of preference files as TRL itself tokenises them; of DPO alone."""
        ...

    def reference_logprobs(self, samples: Sequence[Any]) -> References | None:
        """(chosen, rejected) of each pair under the model as it stands; None where learning does
        not need to know it."""
        ...
