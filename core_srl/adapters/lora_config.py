"""Settings of one LoRA adapter: its make, and where it is served. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from core_srl.arguments import whole
from srl_train.config.models import AdapterConfig
from srl_train.errors import ConfigError


@dataclass(frozen=True)
class LoRAConfig:
    """The documented settings of an adapter. Raises ConfigError, a ValueError."""

    lora_id: int
    """Its number among the adapters of one base."""
    rank: int = 16
    """Inner dimension of every pair of adapter matrices."""
    alpha: float = 32.0
    """Scale: the adapter's product is multiplied by alpha / rank."""
    dropout: float = 0.1
    """Probability of dropping an adapter's input where the model trains."""
    target_modules: list[str] = field(
        default_factory=lambda: ["q_proj", "v_proj", "k_proj", "o_proj"]
    )
    """Linear layers to adapt, by the ends of their paths."""
    gpu_id: int = 0
    """GPU of the server that a DistributedLoRAScheduler serves it on."""
    port: int = 8001
    """Port of that server; adapters of one port share it."""

    def __post_init__(self) -> None:
        for name, low, high in (("lora_id", 0, None), ("gpu_id", 0, None), ("port", 1, 65535)):
            whole(name, getattr(self, name), low, high)
        if not isinstance(self.target_modules, list | tuple) or not self.target_modules:
            raise ConfigError(
                f"target_modules is {self.target_modules!r}: give a list such as ['q_proj']"
            )
        self.adapter  # noqa: B018  # checks the rest

    @property
    def name(self) -> str:
        """What backends and servers call the adapter."""
        return f"lora_{self.lora_id}"

    @property
    def adapter(self) -> AdapterConfig:
        """The adapter's make, as training configures it."""
        return AdapterConfig(
            rank=self.rank,
            alpha=self.alpha,
            dropout=self.dropout,
            target_modules=tuple(self.target_modules),
        )


def adapters_by_id(configs: Any) -> dict[int, LoRAConfig]:
    """Adapters by their numbers, as given; raises ConfigError for what is no such mapping."""
    if not isinstance(configs, Mapping):
        raise ConfigError(f"configs is {configs!r}: give a mapping of numbers to LoRAConfigs")
    for lora_id, config in configs.items():
        if not isinstance(config, LoRAConfig) or config.lora_id != lora_id:
            raise ConfigError(
                f"configs has {config!r} under {lora_id!r}: give a LoRAConfig with that lora_id"
            )
    return dict(configs)
