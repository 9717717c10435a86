"""What a run is told: frozen dataclasses, checked once.

Each section names the room that reads it. A value outside what is allowed, or a name that is not
there, is a ConfigError of one line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from srl_agents import seeding
from srl_agents.llm.backends.registry import is_api_name
from srl_envs import registry
from srl_train.config.bounds import above, at_least, refuse_unread, within
from srl_train.config.credit import CreditConfig
from srl_train.config.learners import GrpoConfig, PpoConfig, SurrogateConfig
from srl_train.config.models import ModelsConfig, PoolConfig
from srl_train.config.offline import DpoConfig, SftConfig
from srl_train.errors import ConfigError

Algorithm = Literal["grpo", "ppo"]

MOST_THREADS = 1024  # of torch: more than any machine has cores; far more of them crash it


@dataclass(frozen=True)
class EnvironmentConfig:
    """Which game is played."""

    name: str = "coop_compete_v0"
    """A name from the catalogue (`srl info` lists them), or 'module:function' for one of yours."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Keyword arguments of the environment, such as max_cycles (turns per episode); without it,
    games of ours that would go on for a thousand turns have as many as a model can remember."""

    def __post_init__(self) -> None:
        options = registry.as_conversations(self.name, self.options)
        object.__setattr__(self, "options", options)


READ_BY_MODES = {
    "cooperation_strength": ("cooperative", "mixed", "hierarchical"),
    "competition_intensity": ("competitive", "mixed"),
    "leader": ("hierarchical",),
}


@dataclass(frozen=True)
class ModeConfig:
    """How raw rewards become the rewards that are trained on."""

    name: Literal["cooperative", "competitive", "mixed", "hierarchical"] = "mixed"
    """See docs/updates.md for the formulas."""
    cooperation_strength: float = 0.6
    """Share of the team's mean in each reward, 0 to 1."""
    competition_intensity: float = 0.4
    """Scale of the rank bonus, in units of episode return, 0 or more."""
    leader: str | None = None
    """Hierarchical mode: the seat that speaks first; the first seat when null."""

    def __post_init__(self) -> None:
        within("mode.cooperation_strength", self.cooperation_strength, 0.0, 1.0)
        at_least("mode.competition_intensity", self.competition_intensity, 0.0)
        refuse_unread("mode", self, "name", READ_BY_MODES)


@dataclass(frozen=True)
class UpdatesConfig:
    """How the models' updates are combined."""

    strategy: Literal["synchronized", "asynchronous", "federated", "selective"] = "asynchronous"
    """See docs/updates.md."""
    groups: tuple[tuple[str, ...], ...] = ()
    """Synchronized and federated: models averaged among themselves; empty for all together."""
    federation_weights: Literal["samples", "scores"] = "samples"
    """Federated: what a model's weights count by, the samples it trained on or how it fared."""
    federation_temperature: float = 4.0
    """Federation by scores: in standard errors of return; the lower, the more the best counts."""
    federation_mix: float = 1.0
    """Federated: share of the mean in the new weights; the rest stays the model's own."""
    selected_fraction: float = 0.5
    """Selective: share of the models that update in a round, clearly higher returns first."""
    patience: int = 4
    """Selective: rounds after which a model that was not selected updates anyway."""
    sample_budget: Mapping[str, int] = field(default_factory=dict)
    """Asynchronous: samples a model gathers before it updates; by default one round's worth."""
    max_staleness: int = 4
    """Asynchronous: a sample is dropped once its model updated more than this often since."""

    def __post_init__(self) -> None:
        above("updates.federation_temperature", self.federation_temperature, 0.0)
        within("updates.federation_mix", self.federation_mix, 0.0, 1.0)
        within("updates.selected_fraction", self.selected_fraction, 0.0, 1.0)
        at_least("updates.patience", self.patience, 1)
        at_least("updates.max_staleness", self.max_staleness, 0)
        if not all(self.groups):
            raise ConfigError("updates.groups has an empty group: name the models it averages")
        own = {
            "groups": ("synchronized", "federated"),
            "federation_weights": ("federated",),
            "federation_temperature": ("federated",),
            "federation_mix": ("federated",),
            "selected_fraction": ("selective",),
            "patience": ("selective",),
            "sample_budget": ("asynchronous",),
            "max_staleness": ("asynchronous",),
        }
        refuse_unread("updates", self, "strategy", own)
        refuse_unread(
            "updates", self, "federation_weights", {"federation_temperature": ("scores",)}
        )
        for model, budget in self.sample_budget.items():
            at_least(f"updates.sample_budget.{model}", budget, 2)


@dataclass(frozen=True)
class RolloutConfig:
    """What a round plays, whatever learns from it."""

    group_size: int = 8
    """Episodes from the same start; GRPO compares a sample with its group."""
    groups_per_round: int = 2
    """Starts per round."""
    discount: float = 1.0
    """Of rewards, per turn."""

    def __post_init__(self) -> None:
        at_least("rollout.group_size", self.group_size, 2)
        at_least("rollout.groups_per_round", self.groups_per_round, 1)
        within("rollout.discount", self.discount, 0.0, 1.0)

    @property
    def episodes(self) -> int:
        """Episodes per round."""
        return self.group_size * self.groups_per_round


@dataclass(frozen=True)
class CheckpointsConfig:
    """When the whole state is saved."""

    every: int = 10
    """Rounds between two checkpoints; 0 saves only the last."""
    keep: int = 10
    """The newest that are kept; -1 keeps all."""

    def __post_init__(self) -> None:
        at_least("checkpoints.every", self.every, 0)
        if self.keep != -1 and self.keep < 1:
            raise ConfigError(f"checkpoints.keep is {self.keep}: give 1 or more, or -1 for all")


@dataclass(frozen=True)
class LoggingConfig:
    """What a run writes about itself."""

    every: int = 1
    """Rounds between two progress lines where there is no terminal."""
    episodes_every: int = 10
    """Rounds between two files of sample episodes; the first and last round are always kept."""
    episodes: int = 2
    """Sample episodes per file."""
    evaluation_episodes: int = 64
    """Episodes played before and after training to measure what was learned; 0 for none."""

    def __post_init__(self) -> None:
        at_least("logging.every", self.every, 1)
        at_least("logging.episodes_every", self.episodes_every, 1)
        at_least("logging.episodes", self.episodes, 0)
        at_least("logging.evaluation_episodes", self.evaluation_episodes, 0)


@dataclass(frozen=True)
class RunConfig:
    """One training run."""

    environment: EnvironmentConfig = field(default_factory=EnvironmentConfig)
    models: ModelsConfig = field(default_factory=ModelsConfig)
    seats: Mapping[str, str] = field(default_factory=dict)
    """Seat -> model_<i>, a frozen model, a pool, or a classic policy; the seats not named are
    dealt to the models that learn, in turn."""
    pools: Mapping[str, PoolConfig] = field(default_factory=dict)
    """Name -> past versions of models, to play against; `seats` says where they sit."""
    mode: ModeConfig = field(default_factory=ModeConfig)
    updates: UpdatesConfig = field(default_factory=UpdatesConfig)
    rollout: RolloutConfig = field(default_factory=RolloutConfig)
    credit: CreditConfig = field(default_factory=CreditConfig)
    algorithm: Algorithm = "grpo"
    """What models learn by; for PPO see docs/ppo.md."""
    algorithms: Mapping[str, Algorithm] = field(default_factory=dict)
    """Model -> its own algorithm, in place of `algorithm`."""
    grpo: GrpoConfig = field(default_factory=GrpoConfig)
    ppo: PpoConfig = field(default_factory=PpoConfig)
    trl: Mapping[str, Any] = field(default_factory=dict)
    """Any field of TRL's GRPOConfig that no other setting stands for, such as epsilon_high."""
    sft: SftConfig | None = None
    """Learn from games before the rounds, by imitation or prediction (docs/offline.md)."""
    dpo: DpoConfig | None = None
    """Learn from better and worse answers before the rounds, and after `sft`."""
    checkpoints: CheckpointsConfig = field(default_factory=CheckpointsConfig)
    logging: LoggingConfig = field(default_factory=LoggingConfig)
    rounds: int = 20
    """Each round plays rollout.groups_per_round x rollout.group_size episodes, then every model
    may update."""
    max_failed_share: float = 0.5
    """A round in which more than this share of episodes failed stops the run."""
    threads: int = 1
    """CPU threads of torch; one is the fastest for the tiny model."""
    parallel: Literal["ddp", "fsdp"] = "ddp"
    """How processes started by torchrun share a model: each holds it whole, or a slice of it."""
    seed: int = 0
    """All randomness of the run comes from it."""

    def __post_init__(self) -> None:
        within("rounds", self.rounds, 0 if self.sft or self.dpo else 1, seeding.MOST_ROUNDS)
        if self.dpo is not None:
            references = any(section.beta for section in self.sections.values())
            self.dpo.check(
                group_size=self.rollout.group_size,
                second_reference=self.models.adapters is not None and references,
            )
        within("max_failed_share", self.max_failed_share, 0.0, 1.0)
        within("threads", self.threads, 1, MOST_THREADS)
        within("seed", self.seed, 0, seeding.MOST)
        for section, names in (
            ("updates.sample_budget", self.updates.sample_budget),
            ("updates.groups", {name for group in self.updates.groups for name in group}),
            ("algorithms", self.algorithms),
            *((f"pools.{pool}.of", settings.of) for pool, settings in self.pools.items()),
        ):
            for name in names:
                if name not in self.models.names:
                    raise ConfigError(
                        f"{section} names {name!r}: the models are {', '.join(self.models.names)}"
                    )
        for pool, settings in self.pools.items():
            bases = {dict(zip(self.models.names, self.models.bases, strict=True))[n]
                     for n in settings.of}  # fmt: skip
            if len(bases) > 1:
                raise ConfigError(
                    f"pools.{pool} holds models of different bases, {sorted(bases)}: "
                    "give each base a pool of its own"
                )
        for section, players in (("models.frozen", self.models.frozen), ("pools", self.pools)):
            for name in players:
                if name in self.models.names or (section == "pools" and name in self.models.frozen):
                    raise ConfigError(f"{section} calls {name!r} what another player is called")
                if name not in self.seats.values():
                    raise ConfigError(f"{section}.{name} sits nowhere: name it in `seats`")
        for model, budget in self.updates.sample_budget.items():
            if budget % self.rollout.group_size:
                raise ConfigError(
                    f"updates.sample_budget.{model} is {budget}: give a multiple of "
                    f"rollout.group_size ({self.rollout.group_size})"
                )
        self.credit.check(self.mode.name, self.grpo.scale_rewards)
        self._check_algorithms()
        self._check_parallel()

    def algorithm_of(self, model: str) -> Algorithm:
        """What the model learns by."""
        return self.algorithms.get(model, self.algorithm)

    @property
    def sections(self) -> dict[Algorithm, SurrogateConfig]:
        """Algorithm -> its section, for those that some model learns by."""
        own: dict[Algorithm, SurrogateConfig] = {"grpo": self.grpo, "ppo": self.ppo}
        used = {self.algorithm_of(model) for model in self.models.names}
        return {name: section for name, section in own.items() if name in used}

    @property
    def records_states(self) -> bool:
        """Whether some model's critic needs the joint state of each turn."""
        return "ppo" in self.sections and self.ppo.critic == "central"

    def _check_parallel(self) -> None:
        refused = {
            "models.adapters": self.models.adapters is not None,
            "pools": bool(self.pools),
            "sft": self.sft is not None,
            "dpo": self.dpo is not None,
            "the algorithm ppo": "ppo" in self.sections,
            "a model behind an API": any(map(is_api_name, self.models.frozen.values())),
        }
        for what, there in refused.items():
            if there and self.parallel == "fsdp":
                raise ConfigError(
                    f"parallel is 'fsdp', which {what} cannot be trained with: leave it at 'ddp'"
                )

    def _check_algorithms(self) -> None:
        used = self.sections
        for section in (self.grpo, self.ppo):
            section.check(used=section.section in used, group_size=self.rollout.group_size)
        if "ppo" in used and self.credit.name != "per_agent":
            raise ConfigError(
                f"credit.name is {self.credit.name!r}, and PPO's critic assigns credit itself: "
                "leave it at 'per_agent', or choose the algorithm grpo"
            )
        if "ppo" in used and "entropy_coef" in self.trl:
            raise ConfigError(
                "trl.entropy_coef is set by ppo.entropy_coef where models learn by ppo"
            )
