"""Remote learner: the Learner protocol by calls to a worker that may die at any time.

What changed the worker since its last known state is written down. Where the worker dies, its
successor takes that state and does the same again; all randomness is seeded, so it comes to the
same weights, and no update is counted twice, for the run counts what it got an answer for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from srl_train.data.samples import TokenSample
from srl_train.distributed.processes import Parallelism
from srl_train.distributed.ray_engine.standing import StandingWorker, Worker
from srl_train.learners.learner import Learned


class RemoteLearner:
    """One model that learns in a process of its own; see Learner for the methods."""

    def __init__(self, name: str, start: Callable[[], Worker], put: Callable[[Any], Any]) -> None:
        """`start` makes a LearnerWorker; `put` lays a value where calls, and calls made again,
        take it from."""
        self.name = name
        self.worker = StandingWorker(f"the learner of {name}", start, self._bring_back)
        self._put = put
        self._state: Any = None  # as `put` gave it; None: as the worker is made
        self._since: list[tuple[str, tuple[Any, ...]]] = []
        self._weights: dict[str, Tensor] | None = None

    def learn(self, samples: Sequence[TokenSample], seed: int, version: int) -> Learned:
        """See Learner."""
        learned, state = self.worker.call("learn", self._put(samples), seed, version)
        self._keep(state)
        own: Learned = learned
        return own

    def begin_update(self, samples: Sequence[TokenSample], seed: int, version: int) -> int:
        """See Learner."""
        steps: int = self._change("begin_update", self._put(samples), seed, version)
        return steps

    def compute_gradients(self) -> dict[str, Tensor] | None:
        """See Learner."""
        gradients: dict[str, Tensor] | None = self._change("compute_gradients")
        return gradients

    def apply_gradients(self, gradients: Mapping[str, Tensor] | None) -> None:
        """See Learner."""
        self._change("apply_gradients", self._put(gradients))

    def end_update(self) -> dict[str, float]:
        """See Learner."""
        metrics: dict[str, float] = self._change("end_update")
        self._keep(self.worker.call("state"))
        return metrics

    def weights(self) -> dict[str, Tensor]:
        """The parameters as of the last change that is through, on the CPU."""
        if self._weights is None:
            self._weights = self.worker.call("call", "weights")
        return dict(self._weights)

    def set_weights(self, weights: Mapping[str, Tensor]) -> None:
        """See Learner."""
        self._change("set_weights", self._put(dict(weights)))

    def reference(self) -> dict[str, Tensor]:
        """See Learner; copies."""
        held: dict[str, Tensor] = self.worker.call("call", "reference")
        return held

    def set_reference(self, weights: Mapping[str, Tensor]) -> None:
        """See Learner."""
        self._change("set_reference", self._put(dict(weights)))

    def optimizer_state(self) -> dict[str, Any]:
        """See Learner."""
        state: dict[str, Any] = self.worker.call("call", "optimizer_state")
        return state

    def load_optimizer_state(self, state: Mapping[str, Any]) -> None:
        """See Learner."""
        self._change("load_optimizer_state", self._put(state))

    def counters(self) -> dict[str, Any]:
        """See Learner."""
        counters: dict[str, Any] = self.worker.call("call", "counters")
        return counters

    def load_counters(self, counters: Mapping[str, Any]) -> None:
        """See Learner."""
        self._change("load_counters", dict(counters))

    def parallelism(self) -> Parallelism:
        """See Learner."""
        found: Parallelism = self.worker.call("call", "parallelism")
        return found

    def save_model(self, folder: Any) -> None:
        """See Learner; written on this machine, whichever the model is on."""
        for name, content in self.worker.call("saved_model").items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def close(self) -> None:
        """End the worker."""
        self.worker.close()

    def _change(self, method: str, *arguments: Any) -> Any:
        given = self.worker.call("call", method, *arguments)
        self._since.append((method, arguments))
        self._weights = None
        return given

    def _keep(self, state: Mapping[str, Any]) -> None:
        self._state, self._since = self._put(state), []
        self._weights = dict(state["weights"])

    def _bring_back(self, worker: Worker) -> None:
        if self._state is not None:
            worker.call("restore", self._state)
        for method, arguments in self._since:
            worker.call("call", method, *arguments)
