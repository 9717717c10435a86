"""Client of an environment server: connections, and environments by address and name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from gymnasium.vector import AutoresetMode

from srl_envs import loading
from srl_envs.errors import EnvConfigError, UntrustedError
from srl_envs.remote.connection import Connection
from srl_envs.remote.parallel_env import RemoteEnv
from srl_envs.remote.vector_env import RemoteVector

GREETING = 10.0
"""Seconds that a server has for its first answer."""


class EnvServer(Connection):
    """A connection to a server, and the environments on it."""

    def env(self, name: str, **options: Any) -> RemoteEnv:
        """The environment `name`, made there with `options`: a PettingZoo ParallelEnv."""
        return RemoteEnv(self, name, options)

    def vector(
        self,
        name: str,
        num_envs: int = 1,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        **options: Any,
    ) -> RemoteVector:
        """`num_envs` of them, stepped together in one call, as `srl_envs.vector.make` has it."""
        return RemoteVector(self, name, options, num_envs, autoreset_mode)


def connect(
    address: str,
    *,
    token: str | None = None,
    certificate: str | Path | None = None,
    timeout: float = 60.0,
) -> EnvServer:
    """A connection to the environment server at `address`, "host:port".

    `token` is what the server asks for (SRL_ENV_TOKEN where not given); `certificate` the PEM file
    that vouches for it, or "system" (SRL_ENV_CERTIFICATE where not given): beyond this machine
    calls are always encrypted. A call is given up after `timeout` seconds. Raises RemoteError where
    no server answers, and EnvConfigError for wrong arguments.
    """
    server = EnvServer(address, token=token, certificate=certificate, timeout=timeout)
    try:
        server.describe(timeout=min(GREETING, timeout))
    except BaseException:
        server.close()
        raise
    return server


def remote(
    address: str,
    name: str,
    /,
    *,
    token: str | None = None,
    certificate: str | Path | None = None,
    timeout: float = 60.0,
    **options: Any,
) -> RemoteEnv:
    """The environment `name` on the server at `address`, made there with `options`; see `connect`.

    Environments of one server share a connection.
    """
    server = _shared(address, token=token, certificate=certificate, timeout=timeout)
    return server.env(name, **options)


def at_url(url: str, options: Mapping[str, Any]) -> RemoteEnv:
    """The environment that "grpc://host:port/name" stands for; token and certificate are those of
    the process's environment variables (see `connect`).

    Raises EnvConfigError for what is no such name, and UntrustedError where a record of others
    names it.
    """
    address, slash, name = url.partition("://")[2].partition("/")
    if not (slash and name):
        raise EnvConfigError(f"{url!r:.200} is no grpc://HOST:PORT/NAME, such as .../maze_v0")
    if loading.is_closed():
        raise UntrustedError(
            f"{url!r:.200} is a server that a record names, and is not asked: {loading.WAY_OUT}"
        )
    return remote(address, name, **options)


_shared = lru_cache(maxsize=64)(connect)
