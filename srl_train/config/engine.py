"""Section `engine` of a run: where episodes are played and models learn."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from srl_train.config.bounds import MOST_MODELS
from srl_train.config.section import Section, chosen_by


class EngineSection(Section):
    """Base class of the section `engine`: where episodes are played and models learn."""

    CHOICE: ClassVar = "name"
    PARTS: ClassVar[str]
    """`module:function` that loads the models: (RunConfig, RolloutSettings, Matchmaking, folder of
    server logs or None, model objects by name) -> srl_train.build.Parts."""

    play_ahead: bool = False
    """If true, the next rounds are played while models still learn from earlier ones, at most
    updates.max_staleness updates behind (docs/training/asynchronous.md)."""
    in_flight: Annotated[int, Field(ge=1)] | None = None
    """Maximum number of concurrent episodes per process, or of all Ray workers. null: no limit."""


class LocalEngineConfig(EngineSection):
    """Episodes and learning in the trainer's process, or in the processes that torchrun started."""

    PARTS: ClassVar = "srl_train.local:local_parts"

    name: Literal["local"] = "local"
    """Engine that plays episodes and runs the learners: `local` in the trainer's process, or `ray`
    in actors of a Ray cluster (docs/training/ray.md)."""


class RayEngineConfig(EngineSection):
    """Episodes and learning in actors of a Ray cluster."""

    PARTS: ClassVar = "srl_extensions.cluster.engine:ray_parts"

    name: Literal["ray"] = "ray"
    """Engine that plays episodes and runs the learners: `local` in the trainer's process, or `ray`
    in actors of a Ray cluster (docs/training/ray.md)."""
    address: str | None = None
    """Address of a running Ray cluster, such as 10.0.0.1:6379, or `auto` for the cluster of this
    machine. null starts a cluster on this machine for the run."""
    rollout_workers: Annotated[int, Field(ge=1, le=MOST_MODELS)] = 1
    """Number of actors that play episodes. Each loads all models and plays its share of a round."""
    actor_cpus: Annotated[float, Field(gt=0)] = 1.0
    """Number of CPUs reserved for each rollout worker and learner."""
    rollout_worker_gpus: Annotated[float, Field(ge=0)] = 0.0
    """Number of GPUs, or a fraction such as 0.5, for each rollout worker. 0 samples on the CPU."""
    learner_gpus: Annotated[float, Field(ge=0)] = 0.0
    """Number of GPUs, or a fraction, for each learner. 0 learns on the CPU."""
    placement: Literal["PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"] = "PACK"
    """Strategy of Ray's placement group: actors on as few nodes as possible, or on different nodes.
    The strict forms fail if that is impossible."""


EngineConfig = Annotated[
    LocalEngineConfig | RayEngineConfig, Field(discriminator="name"), chosen_by("name", "local")
]
