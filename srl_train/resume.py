"""Saving and loading of the complete state of a run; a resumed run is bit-identical.

No random generator is saved: each is derived from the seed of the run and the round's number.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor

from srl_train import checkpoints, fsdp, processes
from srl_train.checkpoints import damaged
from srl_train.config import yaml_file
from srl_train.config.learning.updates import CUSTOM
from srl_train.config.run import RunConfig
from srl_train.config.section import one_line
from srl_train.errors import CheckpointError
from srl_train.opponent_pool import Snapshot
from srl_train.run import ModelTotals, Run
from srl_train.samples import TokenSample
from srl_train.summaries import episodes_played, model_states
from srl_train.tensor_checks import misfit, refuse_unlike

# Sections and settings that may change when a run is resumed, as past rounds do not depend on them.
_FREE = frozenset({
    "rounds", "checkpoints", "logging", "threads", "parallel", "backend", "engine",
    "algorithm.minibatches", "rollout.timeout", "max_failed_fraction",
})  # fmt: skip


def save(run: Run, directory: Path, *, final: bool = False) -> str:
    """Write a checkpoint of the run into the folder `directory`, and return its id.

    The id is "round_00000012" after 12 rounds, and begins with "final_" if `final`. All torchrun
    processes must call this; only the main process writes.
    """
    name = checkpoints.checkpoint_name(run.next_round, final)
    learners = {model: learner.state() for model, learner in run.learners.items()}
    weights = fsdp.in_full(
        {f"models/{model}": own.pop("weights") for model, own in learners.items()}
    )
    for model, own in learners.items():
        kind = run.config.algorithm_of(model).reference
        if kind != "moving" and not (kind == "stage" and run.stages.reports):
            own["reference"] = {}
    state = fsdp.in_full({**_state_of(run), "learners": learners})
    if processes.is_main():
        choices = sum(one.choices for one in run.totals.values())
        cooperations = sum(one.cooperations for one in run.totals.values())
        metadata = {
            "round": run.next_round,
            "episode": episodes_played(run),
            "model_states": model_states(run),
            "global_metrics": {
                "total_episodes": episodes_played(run),
                "training_time": run.seconds,
                "avg_cooperation": cooperations / choices if choices else None,
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
    }


def load(run: Run, directory: Path, checkpoint_id: str) -> None:
    """Load the checkpoint `checkpoint_id` in `directory` into `run`, and publish its weights.

    Settings such as `logging` may differ, and `rounds` if no learning rate has a schedule.

    Raises:
        CheckpointNotFound: If there is no such checkpoint.
        CheckpointError: If the checkpoint is damaged, has another configuration (the message names
            the first different setting), or more rounds than planned. Models are then unchanged.
    """
    checkpoint = checkpoints.load(checkpoints.find(directory, checkpoint_id))
    state, folder, file = checkpoint.state, checkpoint.path, checkpoint.path / "state.json"
    if not isinstance(checkpoint.metadata.get("config"), dict):
        raise damaged(folder, f"{folder / 'metadata.json'}: config must be a mapping")
    _check_same(run.config, checkpoint.metadata["config"], checkpoint_id)
    if run.config.rounds < checkpoint.round:
        raise CheckpointError(
            f"rounds must be at least {checkpoint.round}, the rounds of {checkpoint_id}, got "
            f"{run.config.rounds}"
        )
    weights = {model: checkpoint.tensors(f"models/{model}") for model in run.learners}
    models = {model: learner.weights() for model, learner in run.learners.items()}
    for model, tensors in weights.items():
        if fault := misfit(tensors, models[model]):
            raise damaged(folder, f"{folder / 'models' / model}.safetensors: {fault}")
    try:
        saved = _State.model_validate(state)
    except ValidationError as error:
        raise damaged(folder, f"{file}: {one_line(error, state)}") from error
    try:
        if checkpoint.round != state["next_round"]:
            raise ValueError(f"next_round must be {checkpoint.round}, got {state['next_round']}")
        _refuse_unlike(run, state)
        if state["pools"].keys() != run.pools.keys():
            raise ValueError(f"pools must be {sorted(run.pools)}, got {sorted(state['pools'])}")
        for name, pool in run.pools.items():
            pool.load_state(saved.pools[name], checkpoint.round, models)
    except (ValueError, CheckpointError) as error:
        raise damaged(folder, f"{file}: {error}") from error
    for model, learner in run.learners.items():
        learner.load_state({"weights": weights[model], **state["learners"][model]})
        run.buffers[model].load_state(vars(saved.buffers[model]))
        run.versions[model] = saved.versions[model]
        run.publish(model)
    run.totals, run.frozen_totals = saved.totals, saved.frozen_totals
    run.strategy_state = state["strategy"]
    run.mode_state, run.credit_state = saved.mode, saved.credit
    run.stages.load_state(state["stages"])
    run.next_round, run.seconds = saved.next_round, saved.seconds
    run.evaluations = saved.evaluations


def _refuse_unlike(run: Run, state: Mapping[str, Any]) -> None:
    for part in ("versions", "totals", "buffers", "learners"):
        refuse_unlike(state[part], dict.fromkeys(run.learners, object()), part)
    refuse_unlike(state["mode"], dict(run.mode.init()), "mode")
    if run.config.updates.strategy != CUSTOM:
        refuse_unlike(state["strategy"], run.strategy.init(list(run.learners)), "strategy")
    for model, learner in run.learners.items():
        try:
            learner.refuse_state(state["learners"][model])
        except ValueError as error:
            raise ValueError(f"learners.{model}.{error}") from error


def _check_same(config: RunConfig, saved: Any, checkpoint_id: str) -> None:
    current, former = _flat(yaml_file.to_tree(config)), _flat(saved)
    free = set(_FREE)
    if any(algorithm.schedule != "constant" for algorithm in config.learned_by.values()):
        free.discard("rounds")  # The learning-rate schedule depends on the planned rounds.
    for name in sorted(current.keys() | former.keys()):
        if free.isdisjoint({name, name.split(".")[0]}) and current.get(name) != former.get(name):
            why = ", on which the learning-rate schedule depends" if name == "rounds" else ""
            raise CheckpointError(
                f"{name}: must be {former.get(name)!r} as in {checkpoint_id}{why}, got "
                f"{current.get(name)!r}; resume with the config.yaml of the run"
            )


def _flat(tree: Any, path: str = "") -> dict[str, Any]:
    if isinstance(tree, dict) and tree:
        return {
            name: value
            for key, inner in tree.items()
            for name, value in _flat(inner, f"{path}.{key}" if path else str(key)).items()
        }
    return {path: tree}


# Schema of the state, which may have been written by another user.

Count = Annotated[int, Field(strict=True, ge=0, lt=2**63)]


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True, allow_inf_nan=False)


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
    losses: dict[str, list[float]]
    strategy: Any
    learners: dict[str, _StageLearner]


class _StageReport(_Record, extra="allow"):
    stage: str
    passes: Count


class _Stages(_Record):
    reports: list[_StageReport]
    under_way: _UnfinishedStage | None


class _Buffer(_Record):
    dropped: dict[str, Count]
    taken: dict[str, Count]
    samples: list[TokenSample]


class _State(_Record):
    next_round: Count
    seconds: float
    evaluations: dict[str, dict[str, Any]]
    versions: dict[str, Count]
    totals: dict[str, ModelTotals]
    frozen_totals: dict[str, ModelTotals]
    strategy: Any
    mode: dict[str, float]
    credit: dict[str, float]
    pools: dict[str, list[Snapshot]]
    stages: _Stages
    buffers: dict[str, _Buffer]
    learners: dict[str, _Learner]
