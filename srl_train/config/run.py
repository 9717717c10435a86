"""Configuration of a training run, with one class per YAML section."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from srl_agents import seeding
from srl_envs import registry
from srl_train.config import capabilities
from srl_train.config.backend import BackendConfig, TransformersBackendConfig
from srl_train.config.bounds import MOST_EPISODES, MOST_THREADS
from srl_train.config.engine import EngineConfig, LocalEngineConfig
from srl_train.config.learning.learners import AlgorithmConfig, GrpoConfig, SurrogateConfig
from srl_train.config.learning.presets import PRESETS, PresetName, filled_in
from srl_train.config.learning.updates import AsynchronousConfig, UpdatesConfig
from srl_train.config.logging import LoggingConfig
from srl_train.config.models import (
    MatchmakingConfig,
    ModelsConfig,
    PlayerName,
    PoolConfig,
    check_players,
    with_seated_models,
)
from srl_train.config.section import FROM_TRL, Section
from srl_train.config.stages import STAGES, Dpo, Sft, StageConfig
from srl_train.credit import CreditConfig, PlainCredit
from srl_train.errors import ConfigError
from srl_train.modes import MixedConfig, ModeConfig


class EnvironmentConfig(Section):
    """Name and options of the environment in which the models are trained."""

    name: str = "coop_compete_v0"
    """Environment: a registered name (listed by `srl info`), module:function, or
    grpc://HOST:PORT/NAME on a server (docs/environments/remote.md)."""
    options: Annotated[Mapping[str, Any], Field(validate_default=True)] = {}
    """Keyword arguments of the environment (docs/environments/games.md). Here max_cycles, the steps
    per episode, defaults to 8 in games with a default of 1000, and to 64 in bandit_v0. A whole
    episode must fit into a model's context."""

    @field_validator("options")
    @classmethod
    def _as_conversations(cls, options: Mapping[str, Any], info: ValidationInfo) -> Any:
        return registry.as_conversations(info.data.get("name", ""), options)


class RolloutConfig(Section):
    """Settings of the episodes of a round: groups, discount and time limit."""

    group_size: Annotated[int, Field(ge=2, le=MOST_EPISODES)] = 8
    """Number of episodes from the same start, 2 or more, whose returns GRPO compares."""
    groups_per_round: Annotated[int, Field(ge=1, le=MOST_EPISODES)] = 2
    """Number of groups, each with its own start, per round."""
    discount: Annotated[float, Field(ge=0, le=1)] = 1.0
    """Discount factor of rewards per step, 0 to 1."""
    timeout: Annotated[float, Field(gt=0)] | None = None
    """Time limit in seconds for the episodes of a round, or of one draw of opponents, after which
    the run stops. null sets no limit."""

    @property
    def episodes(self) -> int:
        """Number of episodes per round: group_size x groups_per_round."""
        return self.group_size * self.groups_per_round


class CheckpointsConfig(Section):
    """Intervals between checkpoints, and number of checkpoints that are kept."""

    every: Annotated[int, Field(ge=0)] = 10
    """Number of rounds between two checkpoints. 0 saves by every_minutes and at the end only."""
    every_minutes: Annotated[float, Field(ge=0)] = 5.0
    """Number of minutes since the last checkpoint after which the end of a round saves one. 0 saves
    by every and at the end only."""
    keep: int = 10
    """Number of newest checkpoints to keep, 1 or more. -1 keeps all."""

    @field_validator("keep")
    @classmethod
    def _check_keep(cls, keep: int) -> int:
        if keep != -1 and keep < 1:
            raise ValueError("must be 1 or more, or -1 for all")
        return keep


class RunConfig(Section):
    """Configuration of a training run: the sections and settings of its YAML file."""

    ELSEWHERE: ClassVar = FROM_TRL

    environment: EnvironmentConfig = EnvironmentConfig()
    """Environment in which the models are trained."""
    models: ModelsConfig = ModelsConfig()
    """Models in training, frozen models, and the sampling of their answers."""
    backend: BackendConfig = TransformersBackendConfig()
    """Sampling backend of the models in training."""
    engine: EngineConfig = LocalEngineConfig()
    """Engine that plays episodes and runs the learners."""
    seats: Mapping[str, str] = {}
    """Player by agent: `model_<i>`, a frozen model, a pool, a scripted policy, MODULE:CLASS
    (docs/agents/own_opponent.md), `tiny`, a model's folder or hub name, RUN:model_0 or
    openai:MODEL. `matchmaking` assigns the models in training to all other agents."""
    matchmaking: MatchmakingConfig = MatchmakingConfig()
    """Assignment of the models in training to the agents that `seats` does not name."""
    opponent_pools: Mapping[PlayerName, PoolConfig] = {}
    """Pools of snapshots of models in training, by name. `seats` assigns pools to agents
    (docs/training/self_play.md)."""
    mode: ModeConfig = MixedConfig()
    """Reward mode, which turns the environment's rewards into the rewards of training."""
    updates: UpdatesConfig = AsynchronousConfig()
    """Update strategy, which combines the updates of the models."""
    rollout: RolloutConfig = RolloutConfig()
    """Episodes of a round."""
    preset: PresetName | None = None
    """Published algorithm whose settings are the defaults of `algorithm`, `credit` and `rollout`
    (docs/training/credit.md)."""
    credit: CreditConfig = PlainCredit()
    """Credit scheme, which assigns the rewards of an episode to its steps."""
    algorithm: AlgorithmConfig = GrpoConfig()
    """Algorithm of the models in training."""
    algorithms: Mapping[str, AlgorithmConfig] = {}
    """Algorithm by model, a complete section that replaces `algorithm`."""
    sft: Sft | None = None
    """Supervised fine-tuning before the rounds (docs/training/offline.md). null disables it."""
    dpo: Dpo | None = None
    """Direct preference optimization before the rounds and after `sft`
    (docs/training/offline.md). null disables it."""
    checkpoints: CheckpointsConfig = CheckpointsConfig()
    """Intervals and number of checkpoints."""
    logging: LoggingConfig = LoggingConfig()
    """Progress lines, sample episodes, evaluations and trackers of a run."""
    rounds: Annotated[int, Field(ge=0, le=seeding.MOST_ROUNDS)] = 20
    """Number of training rounds: episodes, then updates. 0 is allowed with `sft` or `dpo`."""
    max_failed_fraction: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Maximum fraction of failed episodes in a round, 0 to 1, above which the run stops."""
    threads: Annotated[int, Field(ge=1, le=MOST_THREADS)] = 1
    """Number of CPU threads of torch. 1 is fastest for the tiny model."""
    parallel: Literal["ddp", "fsdp"] = "ddp"
    """Distribution of a model over the processes of torchrun: whole in each (`ddp`) or sharded
    (`fsdp`, docs/training/processes.md)."""
    seed: Annotated[int, Field(ge=0, le=seeding.MOST)] = 0
    """Seed of all random numbers of the run."""

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, tree: Any) -> Any:
        if not isinstance(tree, Mapping):
            return tree
        tree, named = with_seated_models(tree), tree.get("preset")
        return filled_in(tree) if isinstance(named, str) and named in PRESETS else tree

    @model_validator(mode="after")
    def _check(self) -> RunConfig:
        if not (self.rounds or self.stages):
            raise ConfigError("rounds: must be 1 or more without a section sft or dpo, got 0")
        self._check_names()
        self.check_sizes()
        period = getattr(self.updates, "period", 1)
        if 0 < self.rounds < period:  # The run would never average.
            raise ConfigError(
                f"updates.period: must be at most rounds ({self.rounds}), got {period}"
            )
        self._check_credit()
        self.backend.check_run(self)
        capabilities.check(self)
        return self

    def algorithm_of(self, model: str) -> SurrogateConfig:
        """Return the entry of `algorithms` for a model, or `algorithm` if there is none.

        Args:
            model: Name of a model in training, such as "model_0".
        """
        return self.algorithms.get(model, self.algorithm)

    @property
    def learned_by(self) -> dict[str, SurrogateConfig]:
        """Mapping from each model in training to its algorithm section."""
        return {model: self.algorithm_of(model) for model in self.models.names}

    @property
    def stages(self) -> dict[str, StageConfig]:
        """Mapping from name of a configured stage ("sft", "dpo") to section, in execution order."""
        sections = {name: getattr(self, name) for name in STAGES}
        return {name: section for name, section in sections.items() if section is not None}

    @property
    def records_states(self) -> bool:
        """True if the learner of any model reads joint states, which episodes must then record."""
        return any(section.reads_states for section in self.learned_by.values())

    @property
    def sample_budget(self) -> Mapping[str, int]:
        """Mapping from model to its samples per update; other models update after each round."""
        updates = self.updates
        return updates.sample_budget if isinstance(updates, AsynchronousConfig) else {}

    def _check_names(self) -> None:
        models, pools = self.models, self.opponent_pools
        groups: tuple[tuple[str, ...], ...] = getattr(self.updates, "groups", ())
        for section, names in (
            ("updates.sample_budget", self.sample_budget),
            ("updates.groups", [name for group in groups for name in group]),
            ("algorithms", self.algorithms),
            *((f"opponent_pools.{name}.models", pool.models) for name, pool in pools.items()),
        ):
            for name in names:
                if name not in models.names:
                    known = ", ".join(models.names)
                    raise ConfigError(f"{section}: must name models ({known}), got {name!r}")
        for name, pool in pools.items():
            bases = sorted({models.bases[model] for model in pool.models})
            if len(bases) > 1:
                raise ConfigError(f"opponent_pools.{name}: models must have one base, got {bases}")
        sections = {"models.frozen_models": models.frozen_models, "opponent_pools": pools}
        check_players(self.seats, models.names, sections)

    def check_sizes(self, processes: int = 1) -> None:
        """Raise ConfigError if rollout.group_size does not fit algorithms, budgets or stages.

        Args:
            processes: Number of torchrun processes that divide each update.
        """
        size = self.rollout.group_size
        self.algorithm.check_group_size("algorithm", size, processes)
        for model, algorithm in self.algorithms.items():
            algorithm.check_group_size(f"algorithms.{model}", size, processes)
        for model, budget in self.sample_budget.items():
            if budget % size:
                raise ConfigError(
                    f"updates.sample_budget.{model}: must be a multiple of rollout.group_size "
                    f"({size}), got {budget}"
                )
        for stage in self.stages.values():
            stage.check_group_size(size)

    def _check_credit(self) -> None:
        name = self.credit.name
        sections = self.learned_by.values()
        scales = {own.scale_rewards for own in sections if isinstance(own, GrpoConfig)}
        if name != "per_agent" and (len(scales) > 1 or "batch" in scales):
            raise ConfigError(
                f"algorithm.scale_rewards: must be 'group' or 'none', equal for all models, where "
                f"credit.name is {name!r}, got {', '.join(sorted(scales))}"
            )
