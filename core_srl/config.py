"""MultiModelConfig: the documented settings of a run, without torch."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from enum import Enum
from math import ceil
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import ConfigDict, Field, ValidationError, field_validator

from core_srl.llm_config import LLMBackend
from core_srl.models import (
    API_MODELS,
    APIS,
    DOCUMENTED_TYPES,
    MODERN_MODELS,
    TINY,
    is_large,
    models_by_id,
    types_here,
)
from srl_extensions.vllm.placement import find_gpus
from srl_train.config.bounds import MOST_MODELS
from srl_train.config.run import RunConfig
from srl_train.config.section import LocalPath, Section, one_line
from srl_train.config.yaml_file import from_tree
from srl_train.errors import ConfigError

EVALUATION_EPISODES = 32
"""Episodes of each evaluation of a monitored run."""
STALENESS = 1
"""Updates between a sample and its use where episodes are played during updates."""
LARGEST_GROUP = 16
"""Episodes that are compared with each other at most."""


class TrainingMode(Enum):
    """Ways to compute the models' rewards; docs/training/updates.md has the formulas."""

    COOPERATIVE = "cooperative"
    COMPETITIVE = "competitive"
    MIXED = "mixed"
    HIERARCHICAL = "hierarchical"


class WeightUpdateStrategy(Enum):
    """Ways to combine the models' updates; see docs/training/updates.md."""

    SYNCHRONIZED = "synchronized"
    ASYNCHRONOUS = "asynchronous"
    FEDERATED = "federated"
    SELECTIVE = "selective"


class Resolved(NamedTuple):
    """Values of settings of a MultiModelConfig on this machine."""

    kinds: tuple[str, ...]
    """Type of each model, such as 'tiny' or 'openai'."""
    gpus: tuple[int, ...]
    """Indices of the GPUs in use."""
    play_ahead: bool
    """True to play during updates; by default without effect for whole models on vLLM."""
    notes: tuple[str, ...]
    """One text for each setting that this machine cannot provide and what replaces it."""


Positive = Annotated[int, Field(ge=1)]


class MultiModelConfig(Section):
    """Documented settings of a run with several models, which may change until training begins.

    Settings that this machine lacks may be replaced (see `here`), which the trainer logs.
    Construction and assignment raise ConfigError, a ValueError, for a wrong value. Only
    construction and `to_run_config` check combinations.
    """

    model_config = ConfigDict(frozen=False, validate_assignment=True)

    num_models: Annotated[int, Field(le=MOST_MODELS)] = 4
    """Number of models, one agent each in the default environment."""
    model_types: Annotated[list[str], Field(min_length=1)] = Field(
        default_factory=lambda: [*DOCUMENTED_TYPES]
    )
    """Documented types, 'tiny' (the embedded model) or keys of model_names, dealt in turn. By
    default those of model_names if given, else four documented types, of which 'tiny' replaces
    each that needs a download, package or key."""
    model_names: dict[str, str] = Field(
        default_factory=lambda: {
            kind: {**MODERN_MODELS, **API_MODELS}[kind] for kind in DOCUMENTED_TYPES
        }
    )
    """Type -> local folder, hub name or name in an API. Unless model_types was given, these types
    become model_types; on assignment also if model_types lacks one of them."""
    enable_lora: bool | None = None
    """Train LoRA adapters instead of whole models; None selects adapters for all models if one
    hub name states a billion parameters or more."""
    training_mode: Annotated[TrainingMode, Field(strict=False)] = TrainingMode.MIXED
    weight_update_strategy: Annotated[WeightUpdateStrategy, Field(strict=False)] = (
        WeightUpdateStrategy.ASYNCHRONOUS
    )
    """A WeightUpdateStrategy or its value; only models of the same base are averaged."""
    max_episodes: Positive = 1000
    """Limit on the episodes; only whole rounds are trained (see `rounds`). 1 is read as 2."""
    episode_length: Positive = 32
    max_new_tokens: Positive | None = None
    """Tokens per answer; None: 4 where all models are 'tiny', else 32. Trades need 32 or more."""
    episode_timeout: Annotated[float, Field(gt=0)] | None = None
    """Seconds for the episodes of a round, after which EpisodeTimeout is raised; None: no limit."""
    update_frequency: Annotated[int, Field(ge=2)] = 10
    """Episodes between two updates: one round."""
    learning_rate: Annotated[float, Field(gt=0)] = 3e-4
    """Learning rate of AdamW; 3e-3 suits the embedded model, 1e-6 to 1e-5 large models."""
    cooperation_strength: Annotated[float, Field(ge=0, le=1)] = 0.6
    """Share of the team's mean in each reward; not used by COMPETITIVE."""
    competition_intensity: Annotated[float, Field(ge=0)] = 0.4
    """Scale of the rank bonus, in units of an episode's return; only for COMPETITIVE and MIXED."""
    backend: Annotated[LLMBackend, Field(strict=False)] = LLMBackend.HUGGINGFACE
    """Sampler of the models that learn: HUGGINGFACE (this process) or VLLM (servers of the run)."""
    base_port: Annotated[int, Field(ge=1, le=65535)] = 8001
    """Port of the first vLLM server. Each model has a server; adapters share the first one."""
    num_gpus: Annotated[int, Field(ge=0)] = 4
    """Limit on the GPUs in use. Several need Ray or vLLM; without a GPU models are on the CPU."""
    batch_size: Positive = 32
    """Limit on the samples of an optimizer step; a sample is one agent's episode."""
    checkpoint_dir: Annotated[LocalPath, Field(min_length=1)] | Path = "./checkpoints/multimodel"
    save_interval: Positive = 100
    """Episodes between two checkpoints, rounded down to whole rounds, at least one."""
    max_checkpoints: int = 10
    """Number of newest checkpoints to keep, 1 or more; -1 keeps all."""
    enable_verl: bool = True
    """Sample in batches and keep conversations' keys and values; False: one answer at a time."""
    enable_areal: bool = True
    """Play during updates, with samples at most one update old; see `here` for the default."""
    kv_cache_size: Positive | None = None
    """Limit on the tokens whose keys and values a model keeps; None: no limit."""
    enable_monitoring: bool = True
    """Write metrics, sample episodes and evaluations, and show progress."""
    log_metrics_interval: Positive = 10
    """Episodes between two lines of progress without a terminal, in whole rounds."""
    seed: Annotated[int, Field(ge=0)] = 0

    def __init__(self, /, **fields: Any) -> None:
        super().__init__(**fields)
        if "model_names" in fields and "model_types" not in fields:
            self.model_types = list(self.model_names)
        self.to_run_config()

    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]  # as Section's

    def __setattr__(self, name: str, value: Any) -> None:
        try:
            super().__setattr__(name, value)
        except ValidationError as error:
            raise ConfigError(one_line(error, {name: value})) from None
        if name == "model_names" and (
            set(value) - set(self.model_types) or "model_types" not in self.model_fields_set
        ):
            self.model_types = list(value)

    @field_validator("num_models", mode="before")
    @classmethod
    def _check_number(cls, models: Any) -> Any:
        if type(models) is not int or models < 1:
            raise ValueError("Invalid number of models, must be 1 or more")
        return models

    def here(self) -> Resolved:
        """Return types, GPUs and play-ahead for this machine, with notes on replaced settings.

        Default model types that this machine lacks become 'tiny'; given ones are kept. GPUs are the
        first `num_gpus`, or only one if models sample in this process and Ray is missing.
        Play-ahead is `enable_areal` if set, else True with a GPU and a single process.
        """
        kinds = tuple(self.model_types[i % len(self.model_types)] for i in range(self.num_models))
        ahead, given = self.enable_areal, self.model_fields_set
        notes: tuple[str, ...] = ()
        if "model_types" not in given:
            kinds, notes = types_here(kinds, {kind: self._name(kind) for kind in kinds})
        gpus = tuple(gpu.index for gpu in find_gpus())[: self.num_gpus]
        if len(gpus) < self.num_gpus:
            use = f"{len(gpus)} are used" if gpus else "models are on the CPU"
            notes += (f"num_gpus is {self.num_gpus}, and {len(gpus)} are here: {use}",)
        in_process = self.backend is LLMBackend.HUGGINGFACE
        if len(gpus) > 1 and in_process and importlib.util.find_spec("ray") is None:
            gpus, notes = gpus[:1], (*notes, "one GPU is used: several need the extra ray")
        if ahead and "enable_areal" not in given:
            ahead = bool(gpus) and int(os.environ.get("WORLD_SIZE", "1")) == 1
            if not ahead:
                notes += ("episodes wait for updates (enable_areal=True plays during updates)",)
        return Resolved(kinds, gpus, ahead, notes)

    def rounds(self) -> tuple[int, int, int]:
        """Return (number of rounds, episodes per round, episodes per group).

        A round has `update_frequency` episodes. If `max_episodes` is smaller, there is one round of
        up to `max_episodes` episodes, at least 2. A group is the largest divisor of a round from 2
        to 16. Raises ConfigError if `update_frequency` has no such divisor.
        """
        every = self.update_frequency
        if largest_group(every) is None:
            raise ConfigError(
                f"update_frequency must be divisible by a group size of 2 to {LARGEST_GROUP}, got "
                f"{every}: try {every + 1}"
            )
        episodes = min(every, max(self.max_episodes, 2))
        while (group := largest_group(episodes)) is None:
            episodes -= 1
        return max(1, self.max_episodes // episodes), episodes, group

    def to_run_config(self, agents: Sequence[str] | None = None) -> RunConfig:
        """Return the configuration of the run on this machine.

        Args:
            agents: Agents of the environment, for the models in turn; None or empty selects
                agent_0, ... The result's `environment` is coop_compete_v0 in any case.

        Raises:
            ConfigError: If settings are incompatible, or no model learns.
        """
        here, watched = self.here(), self.enable_monitoring
        rounds, episodes, group = self.rounds()
        models = models_by_id(here.kinds)
        bases = tuple(self._name(kind) for kind in here.kinds if kind not in API_MODELS)
        if not bases:
            raise ConfigError(
                f"model_types: got {self.model_types}: models behind an API never learn; add one "
                "that does, such as 'tiny'"
            )
        frozen = {
            model: f"{APIS[kind][0]}:{self._name(kind)}"
            for model, kind in models.items()
            if kind in API_MODELS
        }
        ids = list(models)
        agents = agents or [f"agent_{index}" for index in range(self.num_models)]
        seats = {agent: ids[i % len(ids)] for i, agent in enumerate(agents)}
        agents_per_model = max(
            list(seats.values()).count(f"model_{index}") for index in range(len(bases))
        )
        mode: dict[str, Any] = {"name": self.training_mode.value}
        if mode["name"] != "competitive":
            mode["cooperation_strength"] = self.cooperation_strength
        if mode["name"] in ("competitive", "mixed"):
            mode["competition_intensity"] = self.competition_intensity
        adapters = self.enable_lora
        if adapters is None:
            adapters = any(map(is_large, bases))
        tokens = self.max_new_tokens
        return from_tree(
            {
                "environment": {
                    "options": {
                        "num_agents": self.num_models,
                        "cooperation_level": 0.6,
                        "difficulty": 0.3,
                        "max_cycles": self.episode_length,
                    }
                },
                "models": {
                    "count": len(bases),
                    "base": bases,
                    "frozen_models": frozen,
                    "device": "auto" if self.num_gpus else "cpu",
                    "sampling": {"max_new_tokens": tokens} if tokens else {},
                    **({"adapters": {}} if adapters else {}),
                },
                **({"seats": seats} if frozen else {}),
                "backend": self._backend(here),
                "engine": self._engine(here, len(bases), adapters),
                "mode": mode,
                "updates": self._updates(bases),
                "rollout": {
                    "group_size": group,
                    "groups_per_round": episodes // group,
                    "timeout": self.episode_timeout,
                },
                "algorithm": {
                    "learning_rate": self.learning_rate,
                    "minibatches": minibatches(episodes * agents_per_model, self.batch_size, group),
                },
                "checkpoints": {
                    "every": max(1, self.save_interval // episodes),
                    "keep": self.max_checkpoints,
                },
                "logging": {
                    "every": max(1, self.log_metrics_interval // episodes),
                    "episodes": 2 if watched else 0,
                    "evaluation_episodes": EVALUATION_EPISODES if watched else 0,
                },
                "rounds": rounds,
                "seed": self.seed,
            }
        )

    def types_by_model(self) -> dict[str, str]:
        """Return model id -> type, such as 'tiny', of the run's models on this machine."""
        return models_by_id(self.here().kinds)

    def _name(self, kind: str) -> str:
        names = {TINY: TINY, **MODERN_MODELS, **API_MODELS, **self.model_names}
        if kind not in names:
            raise ConfigError(
                f"model_types: got {kind!r}: give one of {', '.join(names)}, or name its folder or "
                "hub name in model_names"
            )
        return names[kind]

    def _backend(self, here: Resolved) -> dict[str, Any]:
        served = self.backend is LLMBackend.VLLM
        if not served and self.backend is not LLMBackend.HUGGINGFACE:
            raise ConfigError(
                f"Unsupported LLM backend: {self.backend}, must be LLMBackend.HUGGINGFACE or "
                "LLMBackend.VLLM for models that learn"
            )
        if self.kv_cache_size is not None and (served or not self.enable_verl):
            raise ConfigError("kv_cache_size must be None with vLLM, or without enable_verl")
        if served:
            gpus = {"gpus": here.gpus} if here.gpus else {}
            return {"name": "vllm", "managed": {"base_port": self.base_port, **gpus}}
        kept = self.kv_cache_size
        return {"name": "transformers", "batched": self.enable_verl, "kv_cache_tokens": kept}

    def _engine(self, here: Resolved, learners: int, adapters: bool) -> dict[str, Any]:
        engine: dict[str, Any] = {"play_ahead": here.play_ahead}
        if self.backend is LLMBackend.VLLM:
            # Whole models change in place on their servers, so episodes wait for updates.
            wanted = adapters or "enable_areal" in self.model_fields_set
            engine["play_ahead"] = here.play_ahead and wanted
        elif len(here.gpus) > 1:
            share = 1 / ceil((learners + 1) / len(here.gpus))  # for each learner and sampler
            engine |= {"name": "ray", "learner_gpus": share, "rollout_worker_gpus": share}
        return engine

    def _updates(self, bases: Sequence[str]) -> dict[str, Any]:
        strategy = self.weight_update_strategy.value
        found: dict[str, Any] = {"strategy": strategy, "max_staleness": STALENESS}
        averaging = (WeightUpdateStrategy.SYNCHRONIZED, WeightUpdateStrategy.FEDERATED)
        groups: dict[str, list[str]] = {}
        for index, base in enumerate(bases):
            groups.setdefault(base, []).append(f"model_{index}")
        if self.weight_update_strategy in averaging and len(groups) > 1:
            found["groups"] = [*groups.values()]
        return found


def largest_group(episodes: int) -> int | None:
    """Return the largest divisor of `episodes` from 2 to LARGEST_GROUP, or None."""
    return max((d for d in range(2, LARGEST_GROUP + 1) if episodes % d == 0), default=None)


def minibatches(samples: int, batch_size: int, group: int) -> int:
    """Return the number of optimizer steps of a round with `samples` samples per model.

    It is the smallest divisor of `group` with at most `batch_size` samples per step. Raises
    ConfigError if there is none.
    """
    for parts in range(1, group + 1):
        if group % parts == 0 and samples <= parts * batch_size:
            return parts
    raise ConfigError(
        f"batch_size must be at least {ceil(samples / group)}, got {batch_size}: a round has "
        f"{samples} samples of a model, in at most {group} steps (update_frequency)"
    )
