"""HTTP client of the SDKs `openai` and `anthropic` for all requests of this project."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from srl_agents.errors import BackendError
from srl_envs.validation import is_loopback


def http_client(sdk: Any, url: str, *, most_bytes: int) -> Any:
    """Return the `http_client` that the SDK sends its requests with.

    A proxy for the internet does not lead to this machine, so loopback addresses get none.
    Redirections are not followed, because a reply would decide where the prompts go.

    Args:
        sdk: The module `openai` or `anthropic`.
        url: Address of the server; empty for the SDK's default.
        most_bytes: Limit of a response body after decompression. A longer one raises BackendError,
            which the SDK wraps in its APIConnectionError.

    Raises:
        BackendError: `url` is no HTTP address. The SDK would retry it until the deadline.
    """
    try:
        address = urlsplit(url)
        valid = address.scheme in ("http", "https") and address.hostname and address.port != 0
    except ValueError:  # an invalid port or IPv6 address
        valid = False
    if url and not (valid and url.isprintable()):
        raise BackendError(
            f"the address of a server must be such as http://127.0.0.1:8000/v1, got {url!r:.200}"
        )

    class Client(sdk.DefaultAsyncHttpxClient):  # type: ignore[misc]
        async def send(self, request: Any, *, stream: bool = False, **settings: Any) -> Any:
            """Return the response with its whole body; the project streams none."""
            response = await super().send(request, stream=True, **settings)
            body = bytearray()
            try:
                async for piece in response.aiter_bytes():  # decompressed piece by piece
                    body += piece
                    if len(body) > most_bytes:
                        raise BackendError(f"the reply is longer than {most_bytes} bytes")
            finally:
                await response.aclose()
            headers = response.headers.copy()
            for name in ("content-encoding", "content-length", "transfer-encoding"):
                headers.pop(name, None)  # The body below is decoded.
            return type(response)(
                response.status_code,
                headers=headers,
                content=bytes(body),
                request=response.request,
                extensions=response.extensions,
            )

    here = is_loopback(address.hostname or "")
    # Anthropic's client takes the environment's proxies whatever trust_env is; mounts go first.
    direct = dict.fromkeys(("all://", "http://", "https://")) if here else {}
    return Client(
        trust_env=not here,
        mounts=direct,
        follow_redirects=False,
        # Reading this machine's certificates is nearly all the time of making a client.
        verify=address.scheme != "http",
    )
