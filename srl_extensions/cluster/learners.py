"""Learner actors: one model, its optimizer, and the Learner protocol by calls to the actor."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from srl_extensions.cluster.players import fetched
from srl_train.config.run import RunConfig
from srl_train.loading import learning_models
from srl_train.local import build_learners
from srl_train.players import build_sampling, matchmaking_of
from srl_train.tensor_checks import mapped

if TYPE_CHECKING:
    from srl_extensions.cluster.actors import Actor

State = Mapping[str, Any]
"""State of a learner, with tensors on the CPU."""
CPU = torch.device("cpu")
CHANGES = (
    "begin_update", "compute_gradients", "apply_gradients", "set_weights", "set_reference",
    "load_state",
)  # fmt: skip
ENDS = ("learn", "end_update")
"""Changes that end an update, after which the state is saved."""
READS = ("state", "refuse_state")
OF_WORKER = ("saved_model", "apply")
"""Methods of LearnerWorker; the others are those of its learner."""


class Call(NamedTuple):
    """One method call in a learner actor."""

    method: str
    arguments: Sequence[Any] = ()
    """Values, or references to values in the object store."""


class History(NamedTuple):
    """Changes of a learner since it was built, to repeat them in a restarted actor."""

    changes: int = 0
    """Number of all changes, also before the snapshot."""
    snapshot: Any = None
    """Ray reference to the latest saved state; None before the first one."""
    calls: tuple[Call, ...] = ()
    """Changes after the snapshot, in order."""

    def after(self, call: Call) -> History:
        """Return a new history with `call` as one more change."""
        return History(self.changes + 1, self.snapshot, (*self.calls, call))


class LearnerWorker:
    """Learner of one model in its own actor. The constructor loads `model` from `base`."""

    def __init__(
        self, config: RunConfig, model: str, base: str, make_env: Callable[[], Any]
    ) -> None:
        self._config, self._model, self._base, self._make_env = config, model, base, make_env
        self._build()

    def _build(self) -> None:
        config, model, make_env = self._config, self._model, self._make_env
        torch.set_num_threads(config.threads)
        with closing(make_env()) as env:
            matchmaking = matchmaking_of(config, env)
        backends, modules, _ = learning_models(
            config.models, {model: self._base}, make_env, config.seed
        )
        self._module, self._backend = modules[model], backends[model]
        self._device = next(self._module.parameters()).device
        tokenizers = {model: self._backend.tokenizer}
        sampling = build_sampling(config, matchmaking)
        parts = modules, tokenizers, matchmaking, sampling
        self._learner = build_learners(config, make_env, *parts)[model]
        self._changes = 0

    def run(self, history: History, call: Call, changes: bool, saves: bool) -> tuple[Any, Any]:
        """Make a call; return its result and, if `saves`, the state after it (else None).

        Returned tensors are CPU copies, except those of `apply`. An actor that has made another
        number of changes than `history` first repeats that history. `changes` must be True if the
        call changes the learner.
        """
        if self._changes != history.changes:
            if self._changes:
                self._build()
            if history.snapshot is not None:
                self._learner.load_state(fetched(history.snapshot))
            for earlier in history.calls:
                self._make(earlier)
            self._changes = history.changes
        result = self._make(call)
        self._changes += changes
        return result, moved(self._learner.state(), CPU) if saves else None

    def _make(self, call: Call) -> Any:
        arguments = [moved(fetched(one), self._device) for one in call.arguments]
        if call.method in OF_WORKER:
            return getattr(self, call.method)(*arguments)
        return moved(getattr(self._learner, call.method)(*arguments), CPU)

    def saved_model(self) -> dict[str, bytes]:
        """Return relative path -> content of the files that the learner's `save_model` writes."""
        with tempfile.TemporaryDirectory() as folder:
            self._learner.save_model(Path(folder))
            files = [path for path in Path(folder).rglob("*") if path.is_file()]
            return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}

    def apply(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return `function(module, backend, make_env, *arguments)`."""
        return function(self._module, self._backend, self._make_env, *arguments)


class RemoteLearner:
    """Learner of a model in its actor; methods are those of `Learner`, and wait for the actor.

    Calls that change the learner are recorded since the last snapshot of its state, which is taken
    after each update. Each call contains this history, so a restarted actor continues with the same
    weights. `actor` holds a LearnerWorker; `put` stores a value and returns a Ray reference.
    """

    def __init__(self, name: str, actor: Actor, put: Callable[[Any], Any]) -> None:
        self.name, self._actor, self._put = name, actor, put
        self._history = History()
        self._weights: dict[str, Tensor] | None = None

    def __getattr__(self, method: str) -> Any:
        if method not in (*CHANGES, *ENDS, *READS):
            raise AttributeError(method)
        ends = method in ENDS
        return partial(self.call, method, changes=ends or method in CHANGES, saves=ends)

    def weights(self) -> dict[str, Tensor]:
        """Return name -> trainable parameter, as cached CPU tensors that must not be changed."""
        if self._weights is None:
            self._weights = self.call("weights")
        return dict(self._weights)

    def save_model(self, folder: Any) -> None:
        """Write the model's files to `folder` on this machine."""
        for name, content in self.call("saved_model").items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def apply(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return `function(module, backend, make_env, *arguments)`, called in the actor."""
        return self.call("apply", function, *arguments)

    def close(self) -> None:
        """End the actor; later calls raise TrainingError."""
        self._actor.stop()

    def call(self, method: str, *arguments: Any, changes: bool = False, saves: bool = False) -> Any:
        """Return the result of a method of the learner, or of LearnerWorker, in the actor.

        The call is added to the history if it `changes` the learner. If it `saves`, a snapshot of
        the state after it replaces the history.
        """
        # A value that later calls may repeat is sent once.
        stored = [self._put(a) if isinstance(a, Mapping | list | tuple) else a for a in arguments]
        call = Call(method, stored)
        result, state = self._actor.call("run", self._history, call, changes, saves)
        if changes:
            self._history, self._weights = self._history.after(call), None
        if state is not None:
            self._history = History(self._history.changes, self._put(state))
            self._weights = dict(state["weights"])
        return result


def moved(value: Any, device: torch.device) -> Any:
    """Return a copy of nested mappings, lists and tuples, with detached tensors on `device`."""
    return mapped(
        value, lambda one: one.detach().to(device, copy=True) if isinstance(one, Tensor) else one
    )
