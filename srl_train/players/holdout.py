"""Holdout of opponents and levels: refused in training, reserved for evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from srl_agents.scripted.registry import POLICIES, is_scripted, names
from srl_envs import scenarios
from srl_envs.errors import EnvConfigError
from srl_train.errors import ConfigError

if TYPE_CHECKING:
    from srl_train.config.run import EnvironmentConfig


def refuse_levels(section: EnvironmentConfig, env: Any) -> None:
    """Raise ConfigError where the environment would play levels that are held out."""
    try:
        scenarios.refuse_levels("environment", section.name, section.options, env)
    except EnvConfigError as error:
        raise ConfigError(str(error)) from error


def refuse_partners(seats: Mapping[str, str], models: tuple[str, ...], env: Any) -> None:
    """Raise ConfigError for an agent of nobody's, or of a scripted policy that is held out."""
    offered = ", ".join([*sorted({*models, *names(env, holdout=False)}), "MODULE:CLASS"])
    for agent, who in seats.items():
        if who in models:
            continue
        if not is_scripted(who):
            raise ConfigError(f"seats.{agent} is {who!r}: give one of {offered}")
        if who in POLICIES and POLICIES[who].holdout:
            raise ConfigError(
                f"seats.{agent} is {who!r}, which is kept for evaluation (srl eval): to train, "
                f"give one of {offered}"
            )
