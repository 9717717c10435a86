"""Schema of a run's state in checkpoints, whose content anyone may have written."""

from __future__ import annotations

from typing import Annotated, Any, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from torch import Tensor

from srl_train.run import ModelTotals
from srl_train.samples import TokenSample

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


class StageLearnerState(_Record):
    """A learner of an unfinished stage."""

    optimizer: dict[str, Any]
    counters: dict[str, Any]
    prepared: list[tuple[float, float]] | None


class LearnerState(_Record):
    """A learner, without its weights."""

    optimizer: dict[str, Any]
    counters: dict[str, Any]
    reference: dict[str, Tensor]


class UnfinishedStage(_Record):
    """A stage between two passes."""

    passes: Count
    seconds: float
    losses: dict[str, list[float]]
    strategy: Any
    learners: dict[str, StageLearnerState]


class StageSamples(_Record):
    """Report of one model in a finished stage."""

    samples: Count
    first_loss: float | None
    last_loss: float | None


class StageReport(_Record):
    """Report of a finished stage."""

    stage: str
    passes: Count
    seconds: float
    games: Count
    games_reward: float | None
    kept_reward: float | None
    models: dict[str, StageSamples]


class Stages(_Record):
    """Finished stages, and the unfinished one."""

    reports: list[StageReport]
    under_way: UnfinishedStage | None


class Buffer(_Record):
    """Samples of one model that no update has used."""

    dropped: dict[str, Count]
    taken: dict[str, Count]
    samples: list[Sample]  # type: ignore[valid-type]


class SavedState(_Record):
    """State of a run; other readers check `strategy` and `pools`."""

    next_round: Count
    seconds: float
    evaluations: dict[str, dict[str, Any]]
    versions: dict[str, Count]
    totals: dict[str, Totals]  # type: ignore[valid-type]
    frozen_totals: dict[str, Totals] = {}  # type: ignore[valid-type]
    strategy: Any
    mode: dict[str, float]
    credit: dict[str, float]
    pools: Any
    stages: Stages
    buffers: dict[str, Buffer]
    learners: dict[str, LearnerState]


def refuse_other(state: Any) -> None:
    """Raise ValueError, which names the first wrong entry, unless the state fits the schema."""
    try:
        SavedState.model_validate(state)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"{place or 'the state'}: {first['msg']}") from None
