"""Engines that carry out a run: their configuration section."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from srl_train.config.bounds import MOST_MODELS
from srl_train.config.section import Section, chosen_by
from srl_train.errors import ConfigError


class EngineSection(Section):
    """What the engines share."""

    CHOICE: ClassVar = "name"

    play_ahead: bool = False
    """Whether rounds are played while models still learn from those before, each model at its own
    pace; updates.max_staleness alone says how far (docs/training/asynchronous.md)."""
    in_flight: Annotated[int, Field(ge=1)] | None = None
    """The most games under way at once; null for no limit."""


class LocalEngineConfig(EngineSection):
    """Everything is done in the trainer's process, or in those that torchrun started."""

    name: Literal["local"] = "local"
    """What carries out play and learning: the `local` process, or actors of a `ray` cluster
    (docs/training/ray.md)."""


class RayEngineConfig(EngineSection):
    """Games and models are shared out over the actors of a Ray cluster."""

    name: Literal["ray"] = "ray"
    """What carries out play and learning: the `local` process, or actors of a `ray` cluster
    (docs/training/ray.md)."""
    address: str | None = None
    """Of a running cluster, such as 10.0.0.1:6379, or `auto` for the one that this machine is in;
    null starts one on this machine for the run."""
    players: Annotated[int, Field(ge=1, le=MOST_MODELS)] = 1
    """Actors that play; each holds all models and plays its share of a round's games."""
    actor_cpus: Annotated[float, Field(gt=0)] = 1.0
    """CPUs that Ray reserves for each player, learner process and model server."""
    player_gpus: Annotated[float, Field(ge=0)] = 0.0
    """GPUs for each player, or a part of one, such as 0.5; 0 plays on CPUs."""
    learner_gpus: Annotated[float, Field(ge=0)] = 0.0
    """GPUs for each learner, or a part of one; 0 learns on CPUs."""
    learner_processes: Annotated[int, Field(ge=1, le=MOST_MODELS)] = 1
    """Processes of each learner, which share its work as `parallel` says
    (docs/training/processes.md); each has learner_gpus of its own."""
    server_gpus: Annotated[float, Field(ge=0)] = 0.0
    """GPUs for each model server, all of which it computes on, or a part of one; 0 serves on
    CPUs."""
    placement: Literal["PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"] = "PACK"
    """How the actors lie on the cluster's nodes, by Ray's names: together where they fit, or apart
    where there are nodes; the strict forms refuse what does not fit so."""

    @model_validator(mode="after")
    def _check_whole_gpus(self) -> Self:
        if self.learner_processes > 1 and self.learner_gpus % 1:
            raise ConfigError(
                f"learner_gpus: must be a whole number where learner_processes is "
                f"{self.learner_processes}, got {self.learner_gpus:g}"
            )
        return self


EngineConfig = Annotated[
    LocalEngineConfig | RayEngineConfig, Field(discriminator="name"), chosen_by("name", "local")
]
