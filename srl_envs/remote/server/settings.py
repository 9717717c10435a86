"""Settings of an environment server: what is served to whom, and the limits."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from srl_envs import loading, registry
from srl_envs.errors import DocumentError, EnvConfigError
from srl_envs.remote.connection import TOKEN_VARIABLE
from srl_envs.untrusted import read_bytes
from srl_envs.validation import entries_of, is_loopback, number_between, set_fields, whole_number

SHORTEST_TOKEN = 16
MOST_TOKENS_BYTES = 2**20


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """What an environment server is started with. Raises EnvConfigError for what is not allowed:
    plaintext or no token beyond this machine among it."""

    environments: Sequence[str]
    """Names of the catalogue, or 'module:function' for environments of your own."""
    host: str = "127.0.0.1"
    port: int = 0
    """0 takes one that is free."""
    certificate: Path | None = None
    """PEM file of the certificate chain; with `key`, calls are encrypted (TLS)."""
    key: Path | None = None
    """PEM file of its private key."""
    tokens: Collection[str] = field(default=(), repr=False)
    """Each is one client; empty lets everybody on this machine in, as one client."""
    max_sessions: int = 1024
    """Open at once."""
    max_sessions_per_client: int = 256
    lease: float = 300.0
    """Seconds without a call after which a session ends."""
    step_seconds: float = 30.0
    """For one session's step, reset or opening; a session that takes longer ends."""
    threads: int = 4
    """Environments that compute at once."""
    max_hung: int = 16
    """Environments that may hang at once before the server takes no more calls that compute."""

    def __post_init__(self) -> None:
        names = entries_of("environments", self.environments)
        if not names:
            raise EnvConfigError(f"environments: name some of {', '.join(registry.names())}")
        for name in names:
            if isinstance(name, str) and ":" in name:
                loading.code(name)  # says so at once where there is none
            else:
                registry.entry(name)
        whole_number("port", self.port, 0, 2**16 - 1)
        for limit in ("max_sessions", "max_sessions_per_client", "threads", "max_hung"):
            whole_number(limit, getattr(self, limit), 1)
        for seconds in ("lease", "step_seconds"):
            number_between(seconds, getattr(self, seconds), 0.01, 1e6)
        for token in self.tokens:
            if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable():
                raise EnvConfigError(
                    f"a token must have {SHORTEST_TOKEN} printable characters or more, got "
                    f"{len(token)}: python -c 'import secrets; print(secrets.token_urlsafe())'"
                )
        if (self.certificate is None) != (self.key is None):
            raise EnvConfigError("certificate and key belong together: give both")
        if not is_loopback(self.host):
            if self.certificate is None:
                raise EnvConfigError(
                    f"host {self.host} is reached from elsewhere: give certificate and key, or "
                    "serve on 127.0.0.1"
                )
            if not self.tokens:
                raise EnvConfigError(
                    f"host {self.host} is reached from elsewhere: give tokens (a file of them, or "
                    f"{TOKEN_VARIABLE}), or serve on 127.0.0.1"
                )
        set_fields(self, environments=names, tokens=tuple(self.tokens))


def read_tokens(file: Path | None) -> tuple[str, ...]:
    """The tokens of a file, one a line, or else that of the environment variable SRL_ENV_TOKEN.

    Raises EnvConfigError for a file that cannot be read or holds none.
    """
    if file is None:
        return tuple(filter(None, [os.environ.get(TOKEN_VARIABLE, "").strip()]))
    try:
        told = read_bytes(file, MOST_TOKENS_BYTES).decode("ascii").split()
    except (OSError, UnicodeDecodeError, DocumentError) as error:
        raise EnvConfigError(f"the file of tokens {file}: {error}") from error
    if not told:
        raise EnvConfigError(f"the file of tokens {file} is empty: write one token a line")
    return tuple(told)
