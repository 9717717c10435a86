"""Training configuration of one run, one validated section per YAML section."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from srl_agents import seeding
from srl_envs import registry
from srl_train.config import capabilities
from srl_train.config.backend import BackendConfig, TransformersBackendConfig
from srl_train.config.bounds import MOST_EPISODES, MOST_THREADS
from srl_train.config.engine import EngineConfig, LocalEngineConfig
from srl_train.config.learning.learners import (
    AlgorithmConfig,
    GrpoConfig,
    SurrogateConfig,
)
from srl_train.config.learning.presets import PRESETS, PresetName, filled_in, refuse_another
from srl_train.config.learning.updates import (
    AsynchronousConfig,
    FederatedConfig,
    UpdatesConfig,
)
from srl_train.config.logging import LoggingConfig
from srl_train.config.models import (
    MatchmakingConfig,
    ModelsConfig,
    PlayerName,
    PoolConfig,
    check_players,
    with_seated_models,
)
from srl_train.config.section import Section
from srl_train.config.stages import STAGES, Dpo, Sft, StageConfig
from srl_train.credit import CreditConfig, PlainCredit
from srl_train.errors import ConfigError
from srl_train.modes import MixedConfig, ModeConfig


class EnvironmentConfig(Section):
    """Which game is played."""

    name: str = "coop_compete_v0"
    """A name from the catalogue (`srl info` lists them), module:function for one of yours, or
    grpc://HOST:PORT/NAME for one on a server (docs/environments/remote.md)."""
    options: Annotated[Mapping[str, Any], Field(validate_default=True)] = {}
    """The environment's own arguments (docs/environments/games.md); max_cycles is the turns per
    episode.
    Left out, it is 8 in games that would have 1000 (64 in bandit_v0), members of multitask_v0
    included, and the game's own elsewhere. A whole episode has to fit a model's context."""

    @field_validator("options")
    @classmethod
    def _as_conversations(cls, options: Mapping[str, Any], info: ValidationInfo) -> Any:
        return registry.as_conversations(info.data.get("name", ""), options)


class RolloutConfig(Section):
    """What a round plays, whatever learns from it."""

    group_size: Annotated[int, Field(ge=2, le=MOST_EPISODES)] = 8
    """Episodes from the same start, 2 or more, or with branching answers to the same situation;
    GRPO compares a sample with its group."""
    groups_per_round: Annotated[int, Field(ge=1, le=MOST_EPISODES)] = 2
    """Starts per round."""
    discount: Annotated[float, Field(ge=0, le=1)] = 1.0
    """Of rewards, per turn."""
    branching: bool = False
    """True plays one episode per start, with group_size answers to every situation, instead of
    group_size episodes (AT-GRPO, docs/training/credit.md)."""
    timeout: Annotated[float, Field(gt=0)] | None = None
    """Seconds in which games that are played at once must be over, a round's, or those of one draw
    of opponents (draw_each); else the round is given up and the run stops. null waits."""

    @property
    def per_start(self) -> int:
        """Episodes from the same start."""
        return 1 if self.branching else self.group_size

    @property
    def episodes(self) -> int:
        """Episodes per round."""
        return self.per_start * self.groups_per_round


class CheckpointsConfig(Section):
    """When the whole state is saved."""

    every: Annotated[int, Field(ge=0)] = 10
    """Rounds between two checkpoints; 0 saves by `every_minutes` alone, and the last round."""
    every_minutes: Annotated[float, Field(ge=0)] = 5.0
    """Minutes after a checkpoint, at the end of the round, until the next one is saved; 0 saves by
    `every` alone."""
    keep: int = 10
    """The newest that are kept; -1 keeps all."""

    @field_validator("keep")
    @classmethod
    def check_keep(cls, keep: int) -> int:
        """Return the number if it is 1 or more, or -1."""
        if keep != -1 and keep < 1:
            raise ValueError("must be 1 or more, or -1 for all")
        return keep


class RunConfig(Section):
    """One training run."""

    environment: EnvironmentConfig = EnvironmentConfig()
    """Which game is played."""
    models: ModelsConfig = ModelsConfig()
    """Which models learn, and how all of them answer."""
    backend: BackendConfig = TransformersBackendConfig()
    """What samples for the models that learn."""
    engine: EngineConfig = LocalEngineConfig()
    """What carries out play and learning."""
    seats: Mapping[str, str] = {}
    """Agent -> player: `model_<i>`, a frozen model, a pool, a scripted policy, MODULE:CLASS
    (docs/agents/own_opponent.md), `tiny`, a model's folder or hub name, RUN:model_0 or
    openai:MODEL. The models that learn play all other agents, as `matchmaking` says."""
    matchmaking: MatchmakingConfig = MatchmakingConfig()
    """Who plays the agents that `seats` leaves (docs/training/populations.md)."""
    opponent_pools: Mapping[PlayerName, PoolConfig] = {}
    """Name -> past versions of models to play against; `seats` says where
    (docs/training/self_play.md)."""
    mode: ModeConfig = MixedConfig()
    """How raw rewards become the rewards that are trained on."""
    updates: UpdatesConfig = AsynchronousConfig()
    """How the models' updates are combined."""
    rollout: RolloutConfig = RolloutConfig()
    """What a round plays."""
    preset: PresetName | None = None
    """A published algorithm: what `algorithm`, `credit` and `rollout` are where they are left out
    (docs/training/credit.md)."""
    credit: CreditConfig = PlainCredit()
    """Which answer is paid for what came of a game."""
    algorithm: AlgorithmConfig = GrpoConfig()
    """What models learn by."""
    algorithms: Mapping[str, AlgorithmConfig] = {}
    """Model -> an algorithm section of its own, whole, in place of `algorithm`."""
    sft: Sft | None = None
    """A section makes the models learn from games before the rounds (docs/training/offline.md)."""
    dpo: Dpo | None = None
    """A section makes the models learn from better and worse answers before the rounds, after
    `sft` (docs/training/offline.md)."""
    checkpoints: CheckpointsConfig = CheckpointsConfig()
    """When the whole state is saved."""
    logging: LoggingConfig = LoggingConfig()
    """What a run writes about itself."""
    rounds: Annotated[int, Field(ge=0, le=seeding.MOST_ROUNDS)] = 20
    """In all; 0 is allowed after `sft` or `dpo`. A round plays rollout.groups_per_round x
    rollout.group_size episodes, then every model may update."""
    max_failed_fraction: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Of a round's episodes, 0 to 1; where more failed, the run stops."""
    threads: Annotated[int, Field(ge=1, le=MOST_THREADS)] = 1
    """CPU threads of torch; one is the fastest for the tiny model."""
    parallel: Literal["ddp", "fsdp"] = "ddp"
    """How processes started by torchrun share a model: `ddp`, each holds it whole, or `fsdp`, each
    holds a slice (docs/training/processes.md)."""
    seed: Annotated[int, Field(ge=0, le=seeding.MOST)] = 0
    """All randomness of the run comes from it."""

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
        self._check_sizes()
        if isinstance(self.updates, FederatedConfig):
            self.updates.check_run(self.rounds)
        self._check_credit()
        server_gpus = getattr(self.engine, "server_gpus", 0)
        if server_gpus and self.backend.IN_PROCESS:
            raise ConfigError(
                f"engine.server_gpus: must be 0 without model servers, got {server_gpus:g}"
            )
        self.backend.check_run(self)
        capabilities.check(self)
        return self

    def replaced(self, **changes: Any) -> Self:
        """See Section; raises ConfigError for a preset if another preset was filled in."""
        refuse_another(self.preset, changes.get("preset"))
        return super().replaced(**changes)

    def algorithm_of(self, model: str) -> SurrogateConfig:
        """Return the algorithm of a model."""
        return self.algorithms.get(model, self.algorithm)

    @property
    def learned_by(self) -> dict[str, SurrogateConfig]:
        """Model to its algorithm."""
        return {model: self.algorithm_of(model) for model in self.models.names}

    @property
    def stages(self) -> dict[str, StageConfig]:
        """Configured stages with their sections, in order."""
        sections = {name: getattr(self, name) for name in STAGES}
        return {name: section for name, section in sections.items() if section is not None}

    @property
    def records_states(self) -> bool:
        """True if the learner of a model reads the joint state before each step."""
        return any(section.reads_states for section in self.learned_by.values())

    @property
    def sample_budget(self) -> Mapping[str, int]:
        """Model to the number of samples before an update, for models with a budget."""
        updates = self.updates
        return updates.sample_budget if isinstance(updates, AsynchronousConfig) else {}

    def _check_names(self) -> None:
        models, pools = self.models, self.opponent_pools
        groups: tuple[tuple[str, ...], ...] = getattr(self.updates, "groups", ())
        for section, names in (
            ("updates.sample_budget", self.sample_budget),
            ("updates.groups", [name for group in groups for name in group]),
            ("algorithms", self.algorithms),
            *((f"opponent_pools.{pool}.of", own.of) for pool, own in pools.items()),
        ):
            for name in names:
                if name not in models.names:
                    known = ", ".join(models.names)
                    raise ConfigError(f"{section}: must name models ({known}), got {name!r}")
        for pool, settings in pools.items():
            bases = sorted({models.bases[name] for name in settings.of})
            if len(bases) > 1:
                raise ConfigError(f"opponent_pools.{pool}: models must have one base, got {bases}")
        named = {"models.frozen_models": models.frozen_models, "opponent_pools": pools}
        check_players(self.seats, models.names, named)

    def _check_sizes(self) -> None:
        size = self.rollout.group_size
        self.algorithm.check_group_size("algorithm", size)
        for model, own in self.algorithms.items():
            own.check_group_size(f"algorithms.{model}", size)
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
