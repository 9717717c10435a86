"""Settings of algorithms by their documented names, for any run."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from core_srl.arguments import whole
from core_srl.config.game_rounds import minibatches
from core_srl.factors import CompetenceFactor, CooperationFactor, factor_settings
from srl_train.config import yaml_file
from srl_train.config.bounds import within
from srl_train.config.run import RunConfig
from srl_train.environment import build_env
from srl_train.errors import ConfigError
from srl_train.players import matchmaking_of


class RLAlgorithm(Enum):
    """What models learn by."""

    PPO = "ppo"
    """With a critic (docs/training/ppo.md)."""
    GRPO = "grpo"
    """Against the mean of a group of games."""


@dataclass(frozen=True)
class RLConfig:
    """The documented settings of an algorithm. Raises ConfigError, a ValueError."""

    algorithm: RLAlgorithm = RLAlgorithm.PPO
    """An RLAlgorithm or its value."""
    learning_rate: float = 3e-4
    """Of AdamW."""
    gamma: float = 0.99
    """Discount of rewards, per turn."""
    cooperation_factor: CooperationFactor = field(default_factory=CooperationFactor)
    """What models share."""
    competence_factor: CompetenceFactor = field(default_factory=CompetenceFactor)
    """What answers are judged by."""
    batch_size: int = 32
    """Samples per optimizer step, at most."""

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "algorithm", RLAlgorithm(self.algorithm))
        except ValueError as error:
            raise ConfigError(
                f"algorithm is {self.algorithm!r}: give one of "
                f"{', '.join(repr(one.value) for one in RLAlgorithm)}"
            ) from error
        within("gamma", self.gamma, 0.0, 1.0)
        whole("batch_size", self.batch_size, 1)
        factor_settings(self.cooperation_factor, self.competence_factor)

    def applied_to(self, config: RunConfig | None = None) -> RunConfig:
        """The run with these settings in place of its own; None: a run of defaults.

        Raises ConfigError where they do not go together, and where a round's samples cannot be
        split into steps of batch_size.
        """
        config = config or RunConfig()
        dotted: dict[str, Any] = {
            "algorithm": {
                "name": self.algorithm.value,
                "learning_rate": self.learning_rate,
                "minibatches": self._minibatches(config),
            },
            "rollout.discount": self.gamma,
            **factor_settings(self.cooperation_factor, self.competence_factor),
        }
        sections = {name.partition(".")[0] for name in dotted if "." in name} - {"rollout"}
        tree = {k: v for k, v in yaml_file.to_tree(config).items() if k not in sections}
        return yaml_file.from_tree({**tree, "algorithms": {}}, dotted)

    def _minibatches(self, config: RunConfig) -> int:
        with closing(build_env(config)) as env:
            matchmaking = matchmaking_of(config, env)
        held = max(map(matchmaking.most_held, config.models.names))
        rollout = config.rollout
        return minibatches(rollout.episodes * held, self.batch_size, rollout.group_size)
