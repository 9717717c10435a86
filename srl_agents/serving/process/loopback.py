"""Requests to a vLLM server without an SDK: its health, its models, and one real completion."""

from __future__ import annotations

import asyncio
import http.client
import ipaddress
import json
import socket
import urllib.parse
from typing import Any

from srl_agents.errors import ServingError
from srl_envs.errors import DocumentError
from srl_envs.loading.http_reply import read_reply
from srl_envs.loading.untrusted import printable, read_json

MOST_BYTES = 2**20
"""Limit of a reply."""


class KeyNeeded(ServingError):
    """The server has a gate, and answers those alone who have its key."""


def is_own(host: str) -> bool:
    """Whether it is an address of this machine."""
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            probe.bind((str(ipaddress.ip_address(host)), 0))
    except (OSError, ValueError):
        return host == "localhost"
    return True


async def healthy(url: str, timeout: float, key: str | None = None) -> bool:
    """Whether the server says that its engine runs; which it also says before it ever computed.

    Raises OSError where it does not answer.
    """
    status, _ = await asyncio.to_thread(_request, url, "GET", "/health", None, timeout, key)
    return status == 200


async def served_models(url: str, timeout: float) -> list[str]:
    """Names of the base and the adapters that are loaded.

    Raises KeyNeeded where it has a gate, ServingError for another reply than vLLM's, and OSError
    where there is none.
    """
    status, body = await asyncio.to_thread(_request, url, "GET", "/v1/models", None, timeout)
    if status == 401:
        raise KeyNeeded(f"{url} answers those alone who have its key")
    try:
        return [str(model["id"]) for model in read_json(body, max_bytes=MOST_BYTES)["data"]]
    except (DocumentError, TypeError, KeyError) as error:
        raise ServingError(f"{url} is no vLLM server: {status} {_start(body)}") from error


async def complete_one_token(url: str, model: str, timeout: float, key: str | None = None) -> None:
    """Have the server compute, which alone shows that it can.

    Raises ServingError with its reply where it refuses, OSError where there is none.
    """
    wanted = {"model": model, "prompt": [0], "max_tokens": 1}
    status, body = await asyncio.to_thread(
        _request, url, "POST", "/v1/completions", wanted, timeout, key
    )
    if status != 200:
        raise ServingError(f"{url} does not complete for {model!r}: {status} {_start(body)}")


def _request(
    url: str, method: str, path: str, body: Any, timeout: float, key: str | None = None
) -> tuple[int, bytes]:
    """Status and body of a reply; goes to the address itself, by no proxy and no redirection."""
    address = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=timeout)
    headers = {"Content-Type": "application/json"}
    if key is not None:
        headers["Authorization"] = f"Bearer {key}"
    try:
        return read_reply(
            connection,
            method,
            path,
            seconds=timeout,
            most_bytes=MOST_BYTES,
            body=None if body is None else json.dumps(body),
            headers=headers,
        )
    except http.client.HTTPException as error:
        raise ConnectionError(f"{url}: {type(error).__name__}") from error


def _start(body: bytes) -> str:
    return printable(body[:300].decode(errors="replace"), multiline=False)
