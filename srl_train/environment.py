"""Builder of the environment that a configuration names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from srl_envs import registry
from srl_envs.errors import EnvConfigError
from srl_train.errors import ConfigError

if TYPE_CHECKING:
    from srl_train.config.run import RunConfig


def build_env(config: RunConfig, *, trusted: bool = True) -> Any:
    """Build the configured environment.

    Args:
        config: Configuration whose section `environment` is built.
        trusted: False for the configuration of another user, whose code and files are refused.

    Raises:
        ConfigError: For a wrong name or option.
        UntrustedError: If the section names code or files, or is too large, and is not trusted.
        EnvError, ImportError: If a server or a required package is missing.
    """
    section = config.environment
    try:
        return registry.remake(section.name, section.options, trusted=trusted)
    except EnvConfigError as error:
        raise ConfigError(f"environment: {error}") from error
