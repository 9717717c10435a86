"""Saving and resuming of a run's whole state, bit for bit.

No generator is saved because none outlives a round: every one is made from the run's seed, the
round's number and its own place, so the number of the next round is their state.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from torch import Tensor

from srl_train import checkpoints, fsdp, processes
from srl_train.config import yaml_file
from srl_train.config.learning.updates import CUSTOM
from srl_train.config.run import RunConfig
from srl_train.errors import CheckpointError
from srl_train.learners.learner import restore
from srl_train.run import ModelTotals, Run
from srl_train.samples import TokenSample
from srl_train.summaries import average_cooperation, episodes_played, model_states
from srl_train.tensor_checks import misfit, refuse_unlike

# Sections and settings that may differ on resuming: past rounds do not depend on them.
_FREE = frozenset({
    "rounds", "checkpoints", "logging", "threads", "parallel", "backend", "engine",
    "algorithm.minibatches", "rollout.timeout", "max_failed_fraction",
})  # fmt: skip


def save(run: Run, directory: Path, *, final: bool = False) -> str:
    """Write a checkpoint in the main process and return its id; all processes must call this."""
    name = checkpoints.checkpoint_name(run.next_round, final)
    learners = run.learners.items()
    weights = fsdp.in_full({f"models/{model}": learner.weights() for model, learner in learners})
    state = fsdp.in_full(_state_of(run))
    if processes.is_main():
        metadata = {
            "round": run.next_round,
            "episode": episodes_played(run),
            "model_states": model_states(run),
            "global_metrics": {
                "total_episodes": episodes_played(run),
                "training_time": run.seconds,
                "avg_cooperation": average_cooperation(run),
            },
            "config": yaml_file.to_tree(run.config),
        }
        checkpoints.save(directory, name, tensors=weights, state=state, metadata=metadata)
    processes.wait()
    return name


def _state_of(run: Run) -> dict[str, Any]:
    return {
        "next_round": run.next_round,
        "seconds": run.seconds,
        "evaluations": run.evaluations,
        "versions": dict(run.versions),
        "totals": {m: dataclasses.asdict(t) for m, t in run.totals.items()},
        "frozen_totals": {m: dataclasses.asdict(t) for m, t in run.frozen_totals.items()},
        "strategy": run.strategy_state,
        "mode": dict(run.mode_state),
        "credit": dict(run.credit_state),
        "pools": {name: pool.state() for name, pool in run.pools.items()},
        "stages": run.stages.state(),
        "buffers": {model: buffer.state() for model, buffer in run.buffers.items()},
        "learners": {
            model: {
                "optimizer": learner.optimizer_state(),
                "counters": learner.counters(),
                "reference": learner.reference() if _reference_moved(run, model) else {},
            }
            for model, learner in run.learners.items()
        },
    }


def _reference_moved(run: Run, model: str) -> bool:
    kind = run.config.algorithm_of(model).reference
    return kind == "moving" or (kind == "stage" and bool(run.stages.reports))


def load(run: Run, directory: Path, checkpoint_id: str) -> None:
    """Restore a run that was built from the same configuration; an error changes nothing.

    Raises:
        CheckpointNotFound: There is no such checkpoint.
        CheckpointError: It is damaged, from another configuration (the message names the first
            different setting), or of more rounds than are planned.
    """
    checkpoint = checkpoints.load(checkpoints.find(directory, checkpoint_id))
    if not isinstance(checkpoint.metadata.get("config"), dict):
        raise checkpoint.unusable(f"{checkpoint.path / 'metadata.json'}: config is no mapping")
    _check_same(run.config, checkpoint.metadata["config"], checkpoint_id)
    state, file = checkpoint.state, checkpoint.path / "state.json"
    if run.config.rounds < checkpoint.round:
        raise CheckpointError(
            f"rounds is {run.config.rounds}, and {checkpoint_id} was saved after "
            f"{checkpoint.round}: give {checkpoint.round} or more"
        )
    weights = {model: checkpoint.tensors(f"models/{model}") for model in run.learners}
    models = {model: learner.weights() for model, learner in run.learners.items()}
    for model, own in weights.items():
        if wrong := misfit(own, models[model]):
            raise checkpoint.unusable(f"{checkpoint.path / 'models' / model}.safetensors: {wrong}")
    try:
        _refuse_other(state)
        if checkpoint.round != state["next_round"]:
            raise ValueError(f"next_round must be {checkpoint.round}, got {state['next_round']}")
        _refuse_unlike(run, state, weights)
        if state["pools"].keys() != run.pools.keys():
            raise ValueError(f"pools must be {sorted(run.pools)}, got {sorted(state['pools'])}")
        for name, pool in run.pools.items():
            pool.load_state(state["pools"][name], checkpoint.round, models)
    except (ValueError, CheckpointError) as error:
        raise checkpoint.unusable(f"{file}: {error}") from error
    for model, learner in run.learners.items():
        restore(learner, {"weights": weights[model], **state["learners"][model]})
        run.buffers[model].load_state(state["buffers"][model])
        run.totals[model] = ModelTotals(**state["totals"][model])
        run.versions[model] = state["versions"][model]
        run.publish(model)
    for name, totals in state.get("frozen_totals", {}).items():  # older checkpoints have none
        run.frozen_totals[name] = ModelTotals(**totals)
    run.strategy_state = state["strategy"]
    run.mode_state = state["mode"]
    run.credit_state = state["credit"]
    run.stages.load_state(state["stages"])
    run.next_round = state["next_round"]
    run.seconds = state["seconds"]
    run.evaluations = state["evaluations"]


def _refuse_unlike(run: Run, state: Mapping[str, Any], weights: Mapping[str, Any]) -> None:
    """Raise ValueError, which names the first wrong entry, for the state of another run."""
    for part in ("versions", "totals", "buffers", "learners"):
        refuse_unlike(state[part], dict.fromkeys(run.learners, object()), part)
    refuse_unlike(state["mode"], dict(run.mode.init()), "mode")
    if run.config.updates.strategy != CUSTOM:
        refuse_unlike(state["strategy"], run.strategy.init(list(run.learners)), "strategy")
    for model, learner in run.learners.items():
        try:
            learner.refuse_state({"weights": weights[model], **state["learners"][model]})
        except ValueError as error:
            raise ValueError(f"learners.{model}.{error}") from error


def _check_same(config: RunConfig, saved: Any, checkpoint_id: str) -> None:
    now = _flat(yaml_file.to_tree(config))
    then = _flat(saved)
    free = set(_FREE)
    if any(own.schedule != "constant" for own in config.learned_by.values()):
        free.discard("rounds")  # the learning rate's course depends on the planned rounds
    for name in sorted(now.keys() | then.keys()):
        if free.isdisjoint({name, name.split(".")[0]}) and now.get(name) != then.get(name):
            why = ", on which the schedule of its learning rate depends" if name == "rounds" else ""
            raise CheckpointError(
                f"{checkpoint_id} was saved with {name} = {then.get(name)!r}{why}, the "
                f"configuration has {now.get(name)!r}: resume with the run's own config.yaml"
            )


def _flat(tree: Any, path: str = "") -> dict[str, Any]:
    if isinstance(tree, dict) and tree:
        return {
            name: value
            for key, inner in tree.items()
            for name, value in _flat(inner, f"{path}.{key}" if path else str(key)).items()
        }
    return {path: tree}


# Schema of the state, whose content anyone may have written

Count = Annotated[int, Field(ge=0, lt=2**63)]


class _Record(BaseModel):
    model_config = ConfigDict(
        strict=True, extra="forbid", arbitrary_types_allowed=True, allow_inf_nan=False
    )


def _record_of(kind: type) -> Any:
    hints = get_type_hints(kind).items()
    fields: Any = {name: (Count if hint is int else hint, ...) for name, hint in hints}
    return create_model(kind.__name__, __base__=_Record, **fields)


Totals = _record_of(ModelTotals)
Sample = _record_of(TokenSample)


class _StageLearner(_Record):
    optimizer: dict[str, Any]
    counters: dict[str, Any]
    prepared: list[tuple[float, float]] | None


class _Learner(_Record):
    optimizer: dict[str, Any]
    counters: dict[str, Any]
    reference: dict[str, Tensor]


class _UnfinishedStage(_Record):
    passes: Count
    seconds: float
    losses: dict[str, list[float]]
    strategy: Any
    learners: dict[str, _StageLearner]


class _StageSamples(_Record):
    samples: Count
    first_loss: float | None
    last_loss: float | None


class _StageReport(_Record):
    stage: str
    passes: Count
    seconds: float
    games: Count
    games_reward: float | None
    kept_reward: float | None
    models: dict[str, _StageSamples]


class _Stages(_Record):
    reports: list[_StageReport]
    under_way: _UnfinishedStage | None


class _Buffer(_Record):
    dropped: dict[str, Count]
    taken: dict[str, Count]
    samples: list[Sample]  # type: ignore[valid-type]


class _State(_Record):
    """State of a run; other readers check `strategy` and the snapshots of `pools`."""

    next_round: Count
    seconds: float
    evaluations: dict[str, dict[str, Any]]
    versions: dict[str, Count]
    totals: dict[str, Totals]  # type: ignore[valid-type]
    frozen_totals: dict[str, Totals] = {}  # type: ignore[valid-type]
    strategy: Any
    mode: dict[str, float]
    credit: dict[str, float]
    pools: dict[str, list[dict[str, Any]]]
    stages: _Stages
    buffers: dict[str, _Buffer]
    learners: dict[str, _Learner]


def _refuse_other(state: Any) -> None:
    """Raise ValueError, which names the first wrong entry, unless the state fits the schema."""
    try:
        _State.model_validate(state)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"{place or 'the state'}: {first['msg']}") from None
