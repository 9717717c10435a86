"""Construction of the environment that a configuration names."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from srl_envs import registry
from srl_envs.errors import EnvConfigError
from srl_train.errors import ConfigError

if TYPE_CHECKING:
    from srl_train.config.run import RunConfig


def environment_maker(config: RunConfig, *, trusted: bool = True) -> Callable[[], Any]:
    """Makes the configured environment; a wrong name or option is a ConfigError now.

    A configuration that somebody else wrote is not `trusted`: raises UntrustedError where it names
    code or files (srl_envs.registry.remake).
    """
    section = config.environment

    def make() -> Any:
        return registry.remake(section.name, section.options, trusted=trusted)

    try:
        make().close()
    except (EnvConfigError, TypeError) as error:
        raise ConfigError(f"environment: {error}") from error
    return make
