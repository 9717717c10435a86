"""Scenario: an environment, its evaluated agents and its background players.

After Melting Pot (Leibo et al. 2021, "Scalable evaluation of multi-agent reinforcement learning
with Melting Pot"). A scenario's focal agents are played by whoever is evaluated; its background
agents by partners that they did not train with. Some partners and levels are kept for evaluation,
and training refuses them. It is only data: players stand here by their names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from srl_envs import registry

_NOTHING: Mapping[str, Any] = MappingProxyType({})
ROLES = ("alone", "visitor", "even", "resident")


@dataclass(frozen=True)
class Scenario:
    """One scenario."""

    name: str
    environment: str
    """A name from the registry."""
    description: str
    focal: tuple[str, ...]
    """The agents that are scored."""
    background: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    """Agent -> who plays it, for all agents that are not focal: in this library's scenarios
    scripted policies, in one's own any player's name, such as that of a run's folder."""
    options: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    """Keyword arguments of the environment."""
    held_out_partners: tuple[str, ...] = ()
    """Those of the background that training never meets."""
    held_out_options: tuple[str, ...] = ()
    """Names of the options whose values, taken together, training never meets."""

    @property
    def holdout(self) -> bool:
        """Whether something in it is kept for evaluation."""
        return bool(self.held_out_partners or self.held_out_options)

    @property
    def role(self) -> str:
        """Of the focal agents: "visitor" in the minority, "resident" in the majority, "even" for
        half of the agents, "alone" where there is no background (one of ROLES)."""
        focal, background = len(self.focal), len(self.background)
        if not background:
            return "alone"
        if focal == background:
            return "even"
        return "visitor" if focal < background else "resident"

    @property
    def tags(self) -> tuple[str, ...]:
        """The role, and what is held out: "held-out partners", "held-out levels"."""
        partners = ("held-out partners",) if self.held_out_partners else ()
        levels = ("held-out levels",) if self.held_out_options else ()
        return (self.role, *partners, *levels)

    def make(self) -> Any:
        """The scenario's environment, a PettingZoo ParallelEnv."""
        return registry.make(self.environment, **self.options)
