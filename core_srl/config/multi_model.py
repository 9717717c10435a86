"""Public API for configuration, importable without torch.

Each is thin over the parts that do the work. Names that train are in `core_srl.trainer`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from enum import Enum
from math import ceil
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field, field_validator, model_validator

from core_srl.config.game_rounds import Rounds, minibatches, rounds_of
from core_srl.managers.llm_config import LLMBackend
from core_srl.models import (
    API_MODELS,
    DOCUMENTED_NAMES,
    DOCUMENTED_TYPES,
    MODERN_MODELS,
    TINY,
    Here,
    called,
    gpus_here,
    is_large,
    places_of,
    player_name,
    same_weights,
    types_here,
)
from srl_train.config.bounds import MOST_MODELS
from srl_train.config.run import CheckpointsConfig, RunConfig
from srl_train.config.section import Section
from srl_train.config.yaml_file import from_tree, section_from_tree
from srl_train.errors import ConfigError

EVALUATION_EPISODES = 32
"""Games before and after training where a run is monitored."""
WAITING = "games wait while models learn (enable_areal=True has them go on all the same)"
STALENESS = 1  # updates that a sample may be old where play goes on while models learn


class TrainingMode(Enum):
    """What the models are rewarded for; the formulas are in docs/training/updates.md."""

    COOPERATIVE = "cooperative"
    COMPETITIVE = "competitive"
    MIXED = "mixed"
    HIERARCHICAL = "hierarchical"


class WeightUpdateStrategy(Enum):
    """How the models' updates are combined; see docs/training/updates.md."""

    SYNCHRONIZED = "synchronized"
    ASYNCHRONOUS = "asynchronous"
    FEDERATED = "federated"
    SELECTIVE = "selective"


Positive = Annotated[int, Field(ge=1)]


class MultiModelConfig(Section):
    """The documented settings of a run with several models.

    They may be changed until training begins. One episode is one game. What is left at its default
    gives way where this machine lacks what it needs, and the trainer says so in one line; what is
    set is done, or refused. `RunConfig` says more: seats, sampling, schedules. Raises ConfigError,
    a ValueError, for values that are not allowed.
    """

    model_config = ConfigDict(frozen=False)

    num_models: Annotated[int, Field(le=MOST_MODELS)] = 4
    """Models that play together, one agent each in the default environment."""
    model_types: Annotated[list[str], Field(min_length=1)] = Field(
        default_factory=lambda: [*DOCUMENTED_TYPES]
    )
    """Keys of `model_names`, dealt to the models in turn; 'tiny' is the embedded model. Left out
    they are those of model_names; and where that is left out too, the documented four, in whose
    place 'tiny' learns where one is not on this machine, or its API's key is not."""
    model_names: dict[str, str] = Field(default_factory=lambda: {**DOCUMENTED_NAMES})
    """Type -> local folder, hub name or an API's name, beside and before the documented ones.
    Where it is set to types that model_types lacks, those become model_types."""
    enable_lora: bool | None = None
    """Train LoRA adapters, or whole models; None: adapters where a model of the hub has a billion
    parameters or more by its name."""
    training_mode: Annotated[TrainingMode, Field(strict=False)] = TrainingMode.MIXED
    """A TrainingMode or its value."""
    weight_update_strategy: Annotated[WeightUpdateStrategy, Field(strict=False)] = (
        WeightUpdateStrategy.ASYNCHRONOUS
    )
    """A WeightUpdateStrategy or its value; models are averaged with those of the same base."""
    max_episodes: Positive = 1000
    """Games in all, at most: whole multiples of update_frequency, and two at the least."""
    episode_length: Positive = 32
    """Turns per game, at most."""
    max_new_tokens: Positive | None = None
    """Tokens per answer; None: 4 where all models are 'tiny', else 32. Trades want 32 or more."""
    constrained: bool = False
    """Sample only among the legal answers, in games that can list them."""
    max_failed_fraction: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Share of the games between two updates that may fail; above it training stops."""
    episode_timeout: Annotated[float, Field(gt=0)] | None = None
    """Seconds in which the games between two updates must be over, else "Episode timeout"."""
    update_frequency: Annotated[int, Field(ge=2)] = 10
    """Games between two updates of the models: one round; all games where max_episodes is less."""
    learning_rate: Annotated[float, Field(gt=0)] = 3e-4
    """Of AdamW. The embedded tiny model learns faster at 3e-3, large models want 1e-6 to 1e-5."""
    cooperation_strength: Annotated[float, Field(ge=0, le=1)] = 0.6
    """Share of the team's mean in each reward, 0 to 1."""
    competition_intensity: Annotated[float, Field(ge=0)] = 0.4
    """Scale of the rank bonus, in units of an episode's return."""
    backend: Annotated[LLMBackend, Field(strict=False)] = LLMBackend.HUGGINGFACE
    """What samples for the models that learn: HUGGINGFACE, in this process, or VLLM, servers that
    the run starts."""
    base_port: Annotated[int, Field(ge=1, le=65535)] = 8001
    """VLLM: port of the first model's server; the next have the following ports."""
    num_gpus: Annotated[int, Field(ge=0)] = 4
    """GPUs that are used at most; the CPU where there are none. Several learn in the actors of Ray,
    where that is installed."""
    batch_size: Positive = 32
    """Samples per optimizer step, at most; a sample is one agent's part of one game."""
    checkpoint_dir: Annotated[str, Field(min_length=1)] | Path = "./checkpoints/multimodel"
    """Folder of everything the run writes."""
    save_interval: Positive = 100
    """Games between two checkpoints, rounded down to whole rounds."""
    max_checkpoints: int = 10
    """The newest that are kept; -1 keeps all."""
    enable_verl: bool = True
    """Sample answers in batches, and keep keys and values of conversations between their turns;
    False samples one by one. verl itself trains by VERLTrainer."""
    enable_areal: bool = True
    """Play on while models learn, with samples that are at most an update old. Left out, so where
    there is a GPU: on a CPU play and learning take from each other."""
    kv_cache_size: Positive | None = None
    """Tokens whose keys and values each model keeps of conversations; None keeps all in play."""
    enable_monitoring: bool = True
    """Write metrics, sample games and evaluations, and show progress."""
    log_metrics_interval: Positive = 10
    """Games between two lines of progress where there is no terminal."""
    seed: Annotated[int, Field(ge=0)] = 0
    """All randomness of the run comes from it."""

    def __init__(self, /, **fields: Any) -> None:
        super().__init__(**fields)
        if "model_names" in fields and "model_types" not in fields:
            self.model_types = list(self.model_names) or self.model_types
        self._run_config(self._as_written(), _agents(max(self.num_models, 1)))

    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]  # as Section's

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name != "model_names" or not isinstance(value, Mapping) or not value:
            return
        if set(value) - set(self.model_types) or not self._is_set("model_types"):
            self.model_types = list(value)

    @model_validator(mode="before")
    @classmethod
    def _check_number(cls, given: dict[str, Any]) -> dict[str, Any]:
        models = given.get("num_models", 1)
        if type(models) is not int or models < 1:
            raise ConfigError(f"Invalid number of models: {models!r}: give 1 or more")
        return given

    @field_validator("max_checkpoints")
    @classmethod
    def _check_kept(cls, kept: int) -> int:
        return CheckpointsConfig.check_keep(kept)

    def to_run_config(self, agents: Sequence[str] | None = None) -> RunConfig:
        """The run these settings describe on this machine, in a game of these agents; None: in the
        default environment."""
        checked = self._checked()
        return checked._run_config(checked._here(), agents or _agents(self.num_models))

    def here(self) -> Here:
        """What becomes of the settings on this machine."""
        return self._checked()._here()

    def _checked(self) -> MultiModelConfig:
        """The same once more, for it may have been changed; what is at its default stays so."""
        given = {name: value for name, value in self if self._is_set(name)}
        return section_from_tree(type(self), given, "")

    def _here(self) -> Here:
        in_process = self.backend is LLMBackend.HUGGINGFACE
        kinds, _, _, replaced = self._as_written()
        gpus, told = gpus_here(self.num_gpus, by_ray=in_process)
        if not self._is_set("model_types"):
            kinds, missing = types_here(kinds, {kind: self._name(kind) for kind in kinds})
            told = (*missing, *told)
        ahead = self.enable_areal
        if ahead and not self._is_set("enable_areal"):
            ahead = bool(gpus) and int(os.environ.get("WORLD_SIZE", "1")) == 1
            if not ahead:
                told = (*told, WAITING)
        if self._is_set("base_port") and in_process:
            port = (
                f"base_port {self.base_port} opens no port: models sample in this process "
                "(backend=LLMBackend.VLLM starts their servers there)"
            )
            told = (*told, port)
        return Here(kinds, gpus, ahead, (*replaced, *told, *self.rounds().told))

    def rounds(self) -> Rounds:
        """How the games are divided into rounds."""
        return rounds_of(self.max_episodes, self.update_frequency)

    def _as_written(self) -> Here:
        kinds = [self.model_types[i % len(self.model_types)] for i in range(self.num_models)]
        told: tuple[str, ...] = ()
        if self.constrained and not self._is_set("model_types"):
            kinds = [TINY if kind in API_MODELS else kind for kind in kinds]
            told = ("no API can be held to legal answers: 'tiny' learns in place of its models",)
        return Here(tuple(kinds), (), self.enable_areal, told)

    def _is_set(self, name: str) -> bool:
        return name in self.model_fields_set or getattr(self, name) != self._default(name)

    def _default(self, name: str) -> Any:
        return type(self).model_fields[name].get_default(call_default_factory=True)

    def _name(self, kind: str) -> str:
        names = {TINY: TINY, **MODERN_MODELS, **API_MODELS, **self.model_names}
        if kind not in names:
            raise ConfigError(
                f"model_types has {kind!r}: give one of {', '.join(names)}, or a folder or "
                "hub name for it in model_names"
            )
        return names[kind]

    def dealt_types(self) -> dict[str, str]:
        """Model, as the run calls it -> its type: those that learn, then those behind APIs."""
        return called(self.here().kinds)

    def _run_config(self, here: Here, agents: Sequence[str]) -> RunConfig:
        unread = set(self.model_names) - set(self.model_types)
        if unread and self.model_names != self._default("model_names"):
            raise ConfigError(
                f"model_names has {', '.join(sorted(unread))}, which model_types has not: add "
                "these there, or leave them out here"
            )
        players = list(called(here.kinds).items())
        bases = tuple(self._name(kind) for name, kind in players if kind not in API_MODELS)
        if not bases:
            raise ConfigError(
                f"model_types is {self.model_types}: models behind an API never learn; add one "
                "that does, such as 'tiny'"
            )
        frozen = {
            name: player_name(kind, self._name(kind))
            for name, kind in players
            if kind in API_MODELS
        }
        places = places_of(here.kinds)
        seats = {agent: places[i % len(places)] for i, agent in enumerate(agents)}
        held = max(list(seats.values()).count(f"model_{i}") for i in range(len(bases)))
        rounds = self.rounds()
        watched = self.enable_monitoring
        adapters = any(map(is_large, bases)) if self.enable_lora is None else self.enable_lora
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
                    "sampling": {"max_new_tokens": self.max_new_tokens}
                    if self.max_new_tokens
                    else {},
                    "constrained": self.constrained,
                    **({"adapters": {}} if adapters else {}),
                },
                **({"seats": seats} if frozen else {}),
                "backend": self._backend(here),
                "engine": self._engine(here, len(bases)),
                "mode": self._mode(),
                "updates": self._updates(here, bases),
                "rollout": {
                    "group_size": rounds.group,
                    "groups_per_round": rounds.games // rounds.group,
                    "timeout": self.episode_timeout,
                },
                "algorithm": {
                    "learning_rate": self.learning_rate,
                    "minibatches": minibatches(rounds.games * held, self.batch_size, rounds.group),
                },
                "checkpoints": {
                    "every": max(1, self.save_interval // rounds.games),
                    "keep": self.max_checkpoints,
                },
                "logging": {
                    "every": max(1, self.log_metrics_interval // rounds.games),
                    "episodes": 2 if watched else 0,
                    "evaluation_episodes": EVALUATION_EPISODES if watched else 0,
                },
                "rounds": rounds.number,
                "max_failed_fraction": self.max_failed_fraction,
                "seed": self.seed,
            }
        )

    def _backend(self, here: Here) -> dict[str, Any]:
        if self.backend is LLMBackend.HUGGINGFACE:
            if self.kv_cache_size is not None and not self.enable_verl:
                raise ConfigError(
                    f"kv_cache_size is {self.kv_cache_size} where enable_verl is False, and "
                    "nothing is kept: leave out one of them"
                )
            return {
                "name": "transformers",
                "batched": self.enable_verl,
                "kept_tokens": self.kv_cache_size,
            }
        if self.backend is not LLMBackend.VLLM:
            raise ConfigError(
                f"Unsupported LLM backend: {self.backend} samples for no model that learns: give "
                "LLMBackend.HUGGINGFACE or LLMBackend.VLLM"
            )
        for name, usual in (("kv_cache_size", None), ("enable_verl", True)):
            if getattr(self, name) != usual:
                raise ConfigError(
                    f"{name} is {getattr(self, name)}: a vLLM server sizes its cache and batches "
                    "by itself; leave it out"
                )
        gpus = {"gpus": here.gpus} if here.gpus else {}
        return {"name": "vllm", "managed": {"base_port": self.base_port, **gpus}}

    def _engine(self, here: Here, learners: int) -> dict[str, Any]:
        if len(here.gpus) < 2 or self.backend is LLMBackend.VLLM:
            return {"play_ahead": here.play_ahead}
        share = 1 / ceil((learners + 1) / len(here.gpus))  # of a GPU: each learner's, and play's
        return {
            "name": "ray",
            "play_ahead": here.play_ahead,
            "learner_gpus": share,
            "player_gpus": share,
        }

    def _updates(self, here: Here, bases: Sequence[str]) -> dict[str, Any]:
        found: dict[str, Any] = {"strategy": self.weight_update_strategy.value}
        if here.play_ahead:
            found["max_staleness"] = STALENESS
        averaging = (WeightUpdateStrategy.SYNCHRONIZED, WeightUpdateStrategy.FEDERATED)
        groups: dict[str, list[str]] = {}
        for index, base in enumerate(bases):
            groups.setdefault(same_weights(base), []).append(f"model_{index}")
        if self.weight_update_strategy in averaging and len(groups) > 1:
            found["groups"] = [*groups.values()]
        return found

    def _mode(self) -> dict[str, Any]:
        """The mode, with those of the strengths that it reads: here both stand in every mode."""
        name = self.training_mode.value
        read = {
            "cooperation_strength": name != "competitive",
            "competition_intensity": name in ("competitive", "mixed"),
        }
        return {"name": name} | {
            own: getattr(self, own) for own, is_read in read.items() if is_read
        }


def _agents(number: int) -> list[str]:
    return [f"agent_{index}" for index in range(number)]
