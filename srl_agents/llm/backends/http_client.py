"""HTTP client of the SDKs `openai` and `anthropic`, as all our requests go out."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from srl_envs.validation import is_loopback


def http_client(sdk: Any, url: str) -> Any:
    """For requests to the server of `url`: a proxy for the internet does not lead to this machine,
    and a redirection would take the prompts to wherever the reply says."""
    address = urlsplit(url)
    here = is_loopback(address.hostname or "")
    # Anthropic's client takes the environment's proxies whatever trust_env is; mounts go first.
    direct = dict.fromkeys(("all://", "http://", "https://")) if here else {}
    return sdk.DefaultAsyncHttpxClient(
        trust_env=not here,
        mounts=direct,
        follow_redirects=False,
        # Reading this machine's certificates is nearly all the time of making a client.
        verify=address.scheme != "http",
    )
