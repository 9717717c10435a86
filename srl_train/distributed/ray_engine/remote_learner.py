"""Remote learner: the Learner protocol by calls to a worker that may die at any time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

from torch import Tensor

from srl_train.config.learning.offline import OfflineConfig
from srl_train.data.preferences import Preference, References
from srl_train.distributed.processes import Parallelism
from srl_train.distributed.ray_engine.standing import StandingWorker, Worker
from srl_train.learners.learner import Learned, Learner, StageLearner, without_critic

T = TypeVar("T")


class RemoteModel:
    """A LearnerWorker, and how its successor comes to the same weights.

    What changed the worker since its last known state is written down. Where the worker dies, its
    successor takes that state and does the same again; all randomness is seeded, so it comes to the
    same weights, and no update is counted twice, for the run counts what it got an answer for.
    """

    def __init__(self, name: str, start: Callable[[], Worker], put: Callable[[Any], Any]) -> None:
        """`start` makes a LearnerWorker; `put` lays a value where calls, and calls made again,
        take it from."""
        self.worker = StandingWorker(f"the learner of {name}", start, self._bring_back)
        self.put = put
        self._state: Any = None  # as `put` gave it; None: as the worker is made
        self._since: list[tuple[Any, ...]] = []
        self._weights: dict[str, Tensor] | None = None

    def change(self, *call: Any) -> Any:
        """What a call gives that changes the worker."""
        given = self.worker.call(*call)
        self._since.append(call)
        self._weights = None
        return given

    def keep(self, state: Mapping[str, Any]) -> None:
        """Take what the worker told as its state, to go on from."""
        self._state, self._since = self.put(state), []
        self._weights = dict(state["weights"])

    def weights(self) -> dict[str, Tensor]:
        """The parameters as of the last change that is through, on the CPU."""
        if self._weights is None:
            self._weights = self.worker.call("call", "weights")
        return dict(self._weights)

    def _bring_back(self, worker: Worker) -> None:
        if self._state is not None:
            worker.call("restore", self._state)
        for call in self._since:
            worker.call(*call)


class RemoteLearner:
    """One model that learns in a process of its own; see Learner for the methods."""

    call = "call"
    """The worker's method for those of this learner."""

    def __init__(self, name: str, model: RemoteModel) -> None:
        """`model`: where the model called `name` learns."""
        self.name = name
        self.model = model

    def learn(self, samples: Sequence[Any], seed: int, version: int) -> Learned:
        """See Learner."""
        placed = self.model.put(samples)
        learned: Learned
        learned, state = self.model.worker.call("learn", self.call, placed, seed, version)
        self._keep(state)
        return learned

    def begin_update(self, samples: Sequence[Any], seed: int, version: int) -> int:
        """See Learner."""
        return self._change(Learner.begin_update, self.model.put(samples), seed, version)

    def compute_gradients(self) -> dict[str, Tensor] | None:
        """See Learner."""
        return self._change(Learner.compute_gradients)

    def apply_gradients(self, gradients: Mapping[str, Tensor] | None) -> None:
        """See Learner."""
        self._change(Learner.apply_gradients, self.model.put(gradients))

    def end_update(self) -> dict[str, float]:
        """See Learner."""
        metrics = self._change(Learner.end_update)
        self._keep(self.model.worker.call("state"))
        return metrics

    def weights(self) -> dict[str, Tensor]:
        """See RemoteModel."""
        return self.model.weights()

    def set_weights(self, weights: Mapping[str, Tensor]) -> None:
        """See Learner."""
        self._change(Learner.set_weights, self.model.put(dict(weights)))

    def reference(self) -> dict[str, Tensor]:
        """See Learner; copies."""
        return self._ask(Learner.reference)

    def set_reference(self, weights: Mapping[str, Tensor]) -> None:
        """See Learner."""
        self._change(Learner.set_reference, self.model.put(dict(weights)))

    def optimizer_state(self) -> dict[str, Any]:
        """See Learner."""
        return self._ask(Learner.optimizer_state)

    def load_optimizer_state(self, state: Mapping[str, Any]) -> None:
        """See Learner."""
        self._change(Learner.load_optimizer_state, self.model.put(state))

    def refuse_state(self, state: Mapping[str, Any]) -> None:
        """See Learner."""
        self._ask(Learner.refuse_state, self.model.put(state))

    def counters(self) -> dict[str, Any]:
        """See Learner."""
        return self._ask(Learner.counters)

    def load_counters(self, counters: Mapping[str, Any]) -> None:
        """See Learner."""
        self._change(Learner.load_counters, dict(counters))

    def hyperparameters(self) -> dict[str, float]:
        """See Learner."""
        return self._ask(Learner.hyperparameters)

    def scale(self, factors: Mapping[str, float]) -> None:
        """See Learner."""
        self._change(Learner.scale, dict(factors))

    def parallelism(self) -> Parallelism:
        """See Learner."""
        return self._ask(Learner.parallelism)

    def save_model(self, folder: Any) -> None:
        """See Learner; written on this machine, whichever the model is on."""
        for name, content in self.model.worker.call("saved_model").items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def close(self) -> None:
        """End the worker."""
        self.model.worker.close()

    def in_stage(self, section: OfflineConfig, planned_steps: int) -> RemoteStageLearner:
        """What trains the model in a stage, in the same process."""
        self.model.change("open_stage", section, planned_steps)
        return RemoteStageLearner(self.name, self.model)

    def _ask(self, method: Callable[..., T], *arguments: Any) -> T:
        given: T = self.model.worker.call(self.call, method.__name__, *arguments)
        return given

    def _change(self, method: Callable[..., T], *arguments: Any) -> T:
        given: T = self.model.change(self.call, method.__name__, *arguments)
        return given

    def _keep(self, state: Mapping[str, Any]) -> None:
        self.model.keep(state)


class RemoteStageLearner(RemoteLearner):
    """A model in a stage; see StageLearner for the methods."""

    call = "call_in_stage"

    def __init__(self, name: str, model: RemoteModel) -> None:
        """A stage was opened in the model's worker."""
        super().__init__(name, model)
        self.losses: list[float] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        if reason[0] is None:
            self.model.change("close_stage")

    def weights(self) -> dict[str, Tensor]:
        """See RemoteModel; without a critic, which stages do not train."""
        return without_critic(super().weights())

    def tokenised(self, rows: Sequence[Mapping[str, Any]]) -> list[Preference]:
        """See StageLearner."""
        return self._ask(StageLearner.tokenised, self.model.put(rows))

    def reference_logprobs(self, samples: Sequence[Any]) -> References | None:
        """See StageLearner."""
        found: References | None = self._ask(
            StageLearner.reference_logprobs, self.model.put(samples)
        )
        return found

    def _keep(self, state: Mapping[str, Any]) -> None:
        super()._keep(state)
        self.losses = list(state["stage"]["losses"])
