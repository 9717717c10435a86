"""Public API for configuration and environment descriptions, importable without torch.

Each is thin over the parts that do the work. Names that train are in `core_srl.trainer`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from math import ceil
from os import PathLike
from typing import Any, Literal

from srl_envs import registry
from srl_train.config.run import RunConfig
from srl_train.config.yaml_file import from_tree
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


@dataclass(slots=True)
class MultiModelConfig:
    """The documented settings of a run with several models.

    They may be changed until training begins. One episode is one game. `RunConfig` says more:
    LoRA adapters, agents, sampling, schedules. Raises ConfigError, a ValueError, for values that
    are not allowed, and for parts that are not in this release.
    """

    num_models: int = 4
    """Models that train together, one agent each in the default environment."""
    model_types: list[str] = field(default_factory=lambda: ["tiny"])
    """Keys of `model_names`, dealt to the models in turn; 'tiny' is the embedded model."""
    model_names: dict[str, str] = field(default_factory=dict)
    """Type -> local folder or hub name, beside and before those of MODERN_MODELS."""
    training_mode: TrainingMode = TrainingMode.MIXED
    """A TrainingMode or its value."""
    weight_update_strategy: WeightUpdateStrategy = WeightUpdateStrategy.ASYNCHRONOUS
    """A WeightUpdateStrategy or its value."""
    max_episodes: int = 1000
    """Games in all, rounded up to whole multiples of update_frequency."""
    episode_length: int = 32
    """Turns per game, at most."""
    update_frequency: int = 10
    """Games between two updates of the models: one round."""
    learning_rate: float = 3e-4
    """Of AdamW. The embedded tiny model learns faster at 3e-3, large models want 1e-6 to 1e-5."""
    cooperation_strength: float = 0.6
    """Share of the team's mean in each reward, 0 to 1."""
    competition_intensity: float = 0.4
    """Scale of the rank bonus, in units of an episode's return."""
    base_port: int | None = None
    """Of model servers, which are not in this release: None."""
    num_gpus: int | None = None
    """None takes a GPU where there is one, 0 the CPU, 1 one GPU."""
    batch_size: int = 32
    """Samples per optimizer step, at most; a sample is one agent's part of one game."""
    checkpoint_dir: str = "./checkpoints/multimodel"
    """Folder of everything the run writes."""
    save_interval: int = 100
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
    log_metrics_interval: int = 10
    """Games between two lines of progress where there is no terminal."""
    seed: int = 0
    """All randomness of the run comes from it."""

    def __post_init__(self) -> None:
        self.to_run_config()

    def to_run_config(self, seats_per_model: int = 1) -> RunConfig:
        """The run these settings describe, for models that hold up to so many agents."""
        try:
            return self._run_config(seats_per_model)
        except ConfigError as error:
            told = str(error)
            for theirs, ours in _OWN_NAMES.items():
                told = told.replace(theirs, ours)
            raise ConfigError(told) from error

    def _run_config(self, seats_per_model: int) -> RunConfig:
        self._refuse_absent_parts()
        if type(self.num_models) is not int or self.num_models < 1:
            raise ConfigError(f"Invalid number of models: {self.num_models!r}: give 1 or more")
        for name, low in _WHOLE_NUMBERS.items():
            _check_whole(name, getattr(self, name), low)
        for name in ("learning_rate", "cooperation_strength", "competition_intensity"):
            if type(getattr(self, name)) not in (int, float):
                raise ConfigError(f"{name} is {getattr(self, name)!r}: give a number")
        watched = self.enable_monitoring
        if not isinstance(watched, bool):
            raise ConfigError(f"enable_monitoring is {watched!r}: give True or False")
        if not isinstance(self.checkpoint_dir, str | PathLike) or not str(self.checkpoint_dir):
            raise ConfigError(f"checkpoint_dir is {self.checkpoint_dir!r}: give a folder's path")
        group = _group_size(self.update_frequency)
        bases = self._bases()
        strategy = _value(
            WeightUpdateStrategy, "weight_update_strategy", self.weight_update_strategy
        )
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
                    "base": bases,
                    "device": _DEVICES[self.num_gpus],
                },
                "mode": self._mode(),
                "updates": {"strategy": strategy},
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
                    "evaluation_episodes": 32 if watched else 0,
                },
                "rounds": ceil(self.max_episodes / self.update_frequency),
                "seed": self.seed,
            }
        )

    def _refuse_absent_parts(self) -> None:
        for name, (default, part) in _ABSENT.items():
            if getattr(self, name) is not default:
                raise ConfigError(f"{name} is {getattr(self, name)!r}: {part}; leave it out")
        if type(self.num_gpus) not in (int, type(None)) or self.num_gpus not in _DEVICES:
            raise ConfigError(
                f"num_gpus is {self.num_gpus!r}: placement over several devices is not part of "
                "this release; give None (a GPU where there is one), 0 (the CPU) or 1"
            )

    def _bases(self) -> tuple[str, ...]:
        types, own = self.model_types, self.model_names
        if not isinstance(types, list | tuple) or not types or not _are_texts(types):
            raise ConfigError(f"model_types is {types!r}: give a list such as ['tiny']")
        if not isinstance(own, Mapping) or not _are_texts([*own, *own.values()]):
            raise ConfigError(
                f"model_names is {own!r}: give a mapping of types to folders or hub names"
            )
        names = {"tiny": "tiny", **MODERN_MODELS, **own}
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
        kinds = self.dealt_types()
        return tuple(names[kind] for kind in kinds)

    def dealt_types(self) -> list[str]:
        """The type of each model, in order."""
        return [self.model_types[i % len(self.model_types)] for i in range(self.num_models)]

    def _mode(self) -> dict[str, Any]:
        """The mode, with those of the strengths that it reads: here both stand in every mode."""
        name = _value(TrainingMode, "training_mode", self.training_mode)
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
_OWN_NAMES = {
    "checkpoints.keep": "max_checkpoints",
    "algorithm.learning_rate": "learning_rate",
    "mode.name": "training_mode",
    "mode.": "",
}
"""What errors of a RunConfig name -> the field of a MultiModelConfig that it comes from."""
_ABSENT = {  # field -> its only value, and why
    "enable_verl": (False, "VERL is not part of this release"),
    "enable_areal": (False, "AReaL is not part of this release"),
    "base_port": (None, "model servers are not part of this release"),
    "kv_cache_size": (None, "the key-value cache sizes itself"),
}
_WHOLE_NUMBERS = {
    "max_episodes": 1,
    "episode_length": 1,
    "update_frequency": 2,
    "batch_size": 1,
    "save_interval": 1,
    "log_metrics_interval": 1,
    "max_checkpoints": -1,
    "seed": 0,
}


def _check_whole(name: str, value: Any, low: int) -> None:
    if type(value) is not int or value < low:
        raise ConfigError(f"{name} is {value!r}: give a whole number, {low} or more")


def _are_texts(values: Iterable[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


def _value(kind: type[Enum], name: str, given: Any) -> Any:
    try:
        return kind(given).value
    except ValueError:
        allowed = ", ".join(repr(member.value) for member in kind)
        raise ConfigError(f"{name} is {given!r}: give a {kind.__name__} or {allowed}") from None


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


def create_multi_model_coop_compete_env(num_models: int = 8, cooperation_level: float = 0.6) -> Any:
    """A coop_compete_v0 ParallelEnv with one agent per model."""
    return registry.make(
        "coop_compete_v0", num_agents=num_models, cooperation_level=cooperation_level
    )


def create_multi_model_team_battle() -> Any:
    """A team_battle_v0 ParallelEnv: two teams of four."""
    return registry.make("team_battle_v0")
