"""Settings of a gRPC server: its environments, address, certificate, tokens and limits."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from srl_envs import loading, registry, scenarios
from srl_envs.errors import DocumentError, EnvConfigError, EnvError
from srl_envs.tasks.multitask import Multitask
from srl_envs.untrusted import read_bytes
from srl_envs.validation import entries_of, is_loopback, nearest, set_fields, whole_number
from srl_extensions.remote.client import TOKEN_VARIABLE
from srl_extensions.remote.errors import RemoteError
from srl_extensions.remote.sessions import SessionLimits

SHORTEST_TOKEN = 16
MOST_TOKENS_BYTES = 2**20


@dataclass(frozen=True, kw_only=True)
class ServerSettings(SessionLimits):
    """Settings of a gRPC server of environments.

    Raises:
        EnvConfigError: For values that are not allowed. An address that other machines reach
            requires a certificate and tokens.
    """

    environments: Sequence[str]
    """Names of the catalogue, or 'module:function' for own environments."""
    host: str = "127.0.0.1"
    port: int = 0
    """Port; 0 takes a free one."""
    certificate: Path | None = None
    """PEM file of the certificate chain; with `key`, calls are encrypted (TLS)."""
    key: Path | None = None
    """PEM file of the private key."""
    tokens: Collection[str] = field(default=(), repr=False)
    """One token per client. Without tokens, every process of this machine has access."""

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
        for token in self.tokens:
            if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable():
                raise EnvConfigError(
                    f"a token must have {SHORTEST_TOKEN} printable characters or more, got "
                    f"{len(token)}: python -c 'import secrets; print(secrets.token_urlsafe())'"
                )
        if (self.certificate is None) != (self.key is None):
            raise EnvConfigError("certificate and key belong together: give both")
        required = {"certificate and key": self.certificate, "tokens": self.tokens}
        for name, value in required.items():
            if not value and not is_loopback(self.host):
                raise EnvConfigError(
                    f"host {self.host} is reachable from other machines and requires {name}; "
                    "without them, serve on 127.0.0.1"
                )
        set_fields(self, environments=names, tokens=tuple(self.tokens))

    def make(self, name: str, options: dict[str, Any]) -> Any:
        """Make an environment for a client.

        Args:
            name: Name of the environment, one of `environments`.
            options: Keyword arguments of its constructor, from the client.

        Raises:
            RemoteError: If an environment is not served, or options are refused by the constructor,
                name code or files, request too much or pictures, or select held-out levels.
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


def read_tokens(file: Path | None) -> tuple[str, ...]:
    """Return the tokens of a file, separated by white space; None: SRL_ENV_TOKEN, () if unset.

    Raises EnvConfigError if the file cannot be read or contains no token.
    """
    if file is None:
        return tuple(filter(None, [os.environ.get(TOKEN_VARIABLE, "").strip()]))
    try:
        tokens = read_bytes(file, MOST_TOKENS_BYTES).decode("ascii").split()
    except (OSError, UnicodeDecodeError, DocumentError) as error:
        raise EnvConfigError(f"the file of tokens {file}: {error}") from error
    if not tokens:
        raise EnvConfigError(f"the file of tokens {file} is empty: write one token a line")
    return tuple(tokens)
