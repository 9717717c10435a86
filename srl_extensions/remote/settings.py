"""Settings of a gRPC server: its environments, address and limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from srl_envs import loading, registry, scenarios
from srl_envs.errors import EnvConfigError, EnvError
from srl_envs.tasks.multitask import Multitask
from srl_envs.validation import entries_of, nearest, set_fields, whole_number
from srl_extensions.remote.client import require_loopback
from srl_extensions.remote.errors import RemoteError
from srl_extensions.remote.sessions import SessionLimits


@dataclass(frozen=True, kw_only=True)
class ServerSettings(SessionLimits):
    """Settings of a gRPC server of environments.

    Raises:
        EnvConfigError: For values that are not allowed, such as a host that other machines reach.
    """

    environments: Sequence[str]
    """Names of the catalogue, or 'module:function' for own environments."""
    host: str = "127.0.0.1"
    """Loopback address. Every process of this machine has access."""
    port: int = 0
    """Port; 0 takes a free one."""

    def __post_init__(self) -> None:
        super().__post_init__()
        names = entries_of("environments", self.environments)
        if not names:
            raise EnvConfigError(f"environments: name some of {', '.join(registry.names())}")
        for name in names:
            if isinstance(name, str) and ":" in name:
                loading.code(name)
            else:
                registry.entry(name)
        whole_number("port", self.port, 0, 2**16 - 1)
        require_loopback(self.host)
        set_fields(self, environments=names)

    def make(self, name: str, options: dict[str, Any]) -> Any:
        """Make an environment for a client.

        Args:
            name: Name of the environment, one of `environments`.
            options: Keyword arguments of its constructor, from the client.

        Raises:
            RemoteError: If an environment is not served, or options are refused by the constructor,
                are too large, name files or foreign code, request pictures, or select held-out
                levels.
        """
        self._require(name)
        if options.get("render_mode") is not None:
            raise RemoteError("render_mode must be None: pictures are not sent")
        own = tuple(name for name in self.environments if ":" in name)
        try:
            env = registry.remake(name, options, allowing=own)
        except (EnvError, ImportError) as error:
            # The advice in the error is for the owner of a record, not for a client.
            raise RemoteError(str(error).removesuffix(f": {loading.WAY_OUT}")) from error
        if isinstance(env.unwrapped, Multitask):
            for member in env.unwrapped.named.values():
                self._require(member["name"])
        try:
            scenarios.refuse_levels("environment", name, options, env)
        except EnvError as error:
            raise RemoteError(error, "PERMISSION_DENIED") from error
        return env

    def _require(self, name: str) -> None:
        if name not in self.environments:
            raise RemoteError(
                f"{name!r:.100} is not offered here{nearest(name[:100], self.environments)}",
                "PERMISSION_DENIED",
            )
