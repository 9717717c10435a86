"""Public API for configuration and environment descriptions, importable without torch.

Each is thin over the parts that do the work. Names that train are in `core_srl.trainer`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from math import ceil
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, field_validator, model_validator

from srl_train.config.run import CheckpointsConfig, RunConfig
from srl_train.config.section import Section
from srl_train.config.yaml_file import from_tree, section_from_tree
from srl_train.engine.run_files import versions
from srl_train.errors import ConfigError

MODERN_MODELS = {
    "qwen3": "Qwen/Qwen2.5-14B-Instruct",
    "qwen_coder": "Qwen/Qwen2.5-Coder-14B-Instruct",
    "qwen_math": "Qwen/Qwen2.5-Math-14B-Instruct",
    "llama3": "meta-llama/Llama-3.1-8B-Instruct",
}
"""Documented model type -> hub name."""
API_TYPES = ("openai", "claude")  # weights out of reach: they can only play
EVALUATION_EPISODES = 32
"""Games before and after training where a run is monitored."""
LARGEST_GROUP = 16  # games; more say little more about which of them went better


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

    They may be changed until training begins. One episode is one game. `RunConfig` says more:
    LoRA adapters, agents, sampling, schedules. Raises ConfigError, a ValueError, for values that
    are not allowed, and for parts that are not in this release.
    """

    model_config = ConfigDict(frozen=False)

    num_models: int = 4
    """Models that train together, one agent each in the default environment."""
    model_types: Annotated[list[str], Field(min_length=1, default_factory=lambda: ["tiny"])]
    """Keys of `model_names`, dealt to the models in turn; 'tiny' is the embedded model."""
    model_names: dict[str, str] = Field(default_factory=dict)
    """Type -> local folder or hub name, beside and before those of MODERN_MODELS."""
    training_mode: Annotated[TrainingMode, Field(strict=False)] = TrainingMode.MIXED
    """A TrainingMode or its value."""
    weight_update_strategy: Annotated[WeightUpdateStrategy, Field(strict=False)] = (
        WeightUpdateStrategy.ASYNCHRONOUS
    )
    """A WeightUpdateStrategy or its value."""
    max_episodes: Positive = 1000
    """Games in all, rounded up to whole multiples of update_frequency."""
    episode_length: Positive = 32
    """Turns per game, at most."""
    update_frequency: Annotated[int, Field(ge=2)] = 10
    """Games between two updates of the models: one round."""
    learning_rate: Annotated[float, Field(gt=0)] = 3e-4
    """Of AdamW. The embedded tiny model learns faster at 3e-3, large models want 1e-6 to 1e-5."""
    cooperation_strength: Annotated[float, Field(ge=0, le=1)] = 0.6
    """Share of the team's mean in each reward, 0 to 1."""
    competition_intensity: Annotated[float, Field(ge=0)] = 0.4
    """Scale of the rank bonus, in units of an episode's return."""
    base_port: int | None = None
    """Of model servers, which are not in this release: None."""
    num_gpus: int | None = None
    """None takes a GPU where there is one, 0 the CPU, 1 one GPU."""
    batch_size: Positive = 32
    """Samples per optimizer step, at most; a sample is one agent's part of one game."""
    checkpoint_dir: Annotated[str, Field(min_length=1)] | Path = "./checkpoints/multimodel"
    """Folder of everything the run writes."""
    save_interval: Positive = 100
    """Games between two checkpoints, rounded down to whole rounds."""
    max_checkpoints: int = 10
    """The newest that are kept; -1 keeps all."""
    enable_verl: bool = False
    """Not in this release: False."""
    enable_areal: bool = False
    """Not in this release: False."""
    kv_cache_size: int | None = None
    """The key-value cache is as large as the games need: None."""
    enable_monitoring: bool = True
    """Write metrics, sample games and evaluations, and show progress."""
    log_metrics_interval: Positive = 10
    """Games between two lines of progress where there is no terminal."""
    seed: Annotated[int, Field(ge=0)] = 0
    """All randomness of the run comes from it."""

    def __init__(self, /, **fields: Any) -> None:
        super().__init__(**fields)
        self._run_config(1)

    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]  # as Section's

    @model_validator(mode="before")
    @classmethod
    def _refuse_absent_parts(cls, given: dict[str, Any]) -> dict[str, Any]:
        models, gpus = given.get("num_models", 1), given.get("num_gpus")
        if type(models) is not int or models < 1:
            raise ConfigError(f"Invalid number of models: {models!r}: give 1 or more")
        for name, (default, part) in _ABSENT.items():
            if given.get(name, default) is not default:
                raise ConfigError(f"{name} is {given[name]!r}: {part}; leave it out")
        if type(gpus) not in (int, type(None)) or gpus not in _DEVICES:
            raise ConfigError(
                f"num_gpus is {gpus!r}: placement over several devices is not part of this "
                "release; give None (a GPU where there is one), 0 (the CPU) or 1"
            )
        return given

    @field_validator("max_checkpoints")
    @classmethod
    def _check_kept(cls, kept: int) -> int:
        return CheckpointsConfig.check_keep(kept)

    def to_run_config(self, seats_per_model: int = 1) -> RunConfig:
        """The run these settings describe, for models that hold up to so many agents."""
        checked = section_from_tree(type(self), dict(self), "")  # it may have been changed
        return checked._run_config(seats_per_model)

    def _run_config(self, seats_per_model: int) -> RunConfig:
        group = _group_size(self.update_frequency)
        watched = self.enable_monitoring
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
                    "count": self.num_models,
                    "base": self._bases(),
                    "device": _DEVICES[self.num_gpus],
                },
                "mode": self._mode(),
                "updates": {"strategy": self.weight_update_strategy.value},
                "rollout": {
                    "group_size": group,
                    "groups_per_round": self.update_frequency // group,
                },
                "algorithm": {
                    "learning_rate": self.learning_rate,
                    "minibatches": self._minibatches(group, seats_per_model),
                },
                "checkpoints": {
                    "every": max(1, self.save_interval // self.update_frequency),
                    "keep": self.max_checkpoints,
                },
                "logging": {
                    "every": max(1, self.log_metrics_interval // self.update_frequency),
                    "episodes": 2 if watched else 0,
                    "evaluation_episodes": EVALUATION_EPISODES if watched else 0,
                },
                "rounds": ceil(self.max_episodes / self.update_frequency),
                "seed": self.seed,
            }
        )

    def _bases(self) -> tuple[str, ...]:
        names = {"tiny": "tiny", **MODERN_MODELS, **self.model_names}
        for kind in self.model_types:
            if kind in API_TYPES:
                raise ConfigError(
                    f"model_types has {kind!r}: models behind an API can play "
                    "(models.frozen_models of a RunConfig) but never train; give one of "
                    f"{', '.join(names)}"
                )
            if kind not in names:
                raise ConfigError(
                    f"model_types has {kind!r}: give one of {', '.join(names)}, or a folder or "
                    "hub name for it in model_names"
                )
        return tuple(names[kind] for kind in self.dealt_types())

    def dealt_types(self) -> list[str]:
        """The type of each model, in order."""
        return [self.model_types[i % len(self.model_types)] for i in range(self.num_models)]

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

    def _minibatches(self, group: int, seats: int) -> int:
        """The fewest parts of at most batch_size samples.

        They divide a group, so that they still divide what is left where other groups failed.
        """
        samples = self.update_frequency * seats
        for parts in _divisors(group):
            if samples <= parts * self.batch_size:
                return parts
        raise ConfigError(
            f"batch_size is {self.batch_size}: the {samples} samples that a model with {seats} "
            f"agent(s) brings per round are split into {group} steps at most; give "
            f"{ceil(samples / group)} or more, or lower update_frequency"
        )


_DEVICES: Mapping[int | None, Literal["auto", "cpu", "cuda"]] = {None: "auto", 0: "cpu", 1: "cuda"}
_ABSENT = {  # field -> its only value, and why
    "enable_verl": (False, "VERL is not part of this release"),
    "enable_areal": (False, "AReaL is not part of this release"),
    "base_port": (None, "model servers are not part of this release"),
    "kv_cache_size": (None, "the key-value cache sizes itself"),
}


def _group_size(games: int) -> int:
    size = max(d for d in _divisors(games) if d <= LARGEST_GROUP)
    if size < 2:
        raise ConfigError(
            f"update_frequency is {games}: games are compared in groups of 2 to {LARGEST_GROUP}, "
            f"and none of these divides it; try {games + 1}"
        )
    return size


def _divisors(number: int) -> list[int]:
    return [d for d in range(1, number + 1) if number % d == 0]


def get_available_models() -> dict[str, list[str]]:
    """Model type -> names it stands for."""
    return {"tiny": ["tiny"]} | {kind: [name] for kind, name in MODERN_MODELS.items()}


def get_version_info() -> dict[str, str]:
    """'version' of Core SRL, and package -> installed version of what decides a run's numbers."""
    found = versions()
    return {"version": found.get("core-srl", "not installed"), **found}
