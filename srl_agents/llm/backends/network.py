"""HTTP client, deadline and errors of all network requests; the SDKs retry them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import urlsplit

from srl_agents.errors import BackendError, ServerUnavailable
from srl_envs.untrusted import printable
from srl_envs.validation import is_loopback


def http_client(sdk: Any, url: str, *, most_bytes: int) -> Any:
    """Return the asynchronous HTTP client of an SDK (`openai` or `anthropic`).

    Loopback addresses are contacted without a proxy. Redirections are not followed.

    Args:
        sdk: Module of the SDK.
        url: Address of the server; empty for the SDK's default.
        most_bytes: Maximum size of a response body after decompression. A larger body is replaced
            by an error of status 413, which the SDKs do not retry.

    Raises:
        BackendError: `url` is no HTTP address.
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
    is_local = is_loopback(address.hostname or "")

    class Client(sdk.DefaultAsyncHttpxClient):  # type: ignore[misc]
        async def send(self, request: Any, *, stream: bool = False, **settings: Any) -> Any:
            response = await super().send(request, stream=True, **settings)
            kind, body = type(response), bytearray()
            try:
                async for piece in response.aiter_bytes():  # decompressed incrementally
                    body += piece
                    if len(body) > most_bytes:
                        error = f"the reply is longer than {most_bytes} bytes"
                        return kind(413, json={"error": {"message": error}}, request=request)
            finally:
                await response.aclose()
            headers = response.headers.copy()
            for name in ("content-encoding", "content-length", "transfer-encoding"):
                headers.pop(name, None)  # The body below is decoded.
            return kind(
                response.status_code,
                headers=headers,
                content=bytes(body),
                request=response.request,
                extensions=response.extensions,
            )

    return Client(
        trust_env=not is_local,
        # Anthropic's client uses the environment's proxies even if trust_env is False. Mounts
        # have priority over proxies.
        mounts=dict.fromkeys(("all://", "http://", "https://")) if is_local else {},
        follow_redirects=False,
        # Reading the machine's certificates takes most of the time of creating a client.
        verify=address.scheme != "http",
    )


T = TypeVar("T")
LONGEST_QUOTE = 1000
"""Maximum number of characters quoted from a server's message."""


class RejectedError(BackendError):
    """Refusal of a request by the server."""


async def within(seconds: float, name: str, request: Awaitable[T]) -> T:
    """Return the result of a request to the server `name`; BackendError after `seconds`."""
    try:
        # asyncio.wait_for of Python 3.11 can lose the cancellation of a fleet that closes.
        async with asyncio.timeout(seconds):
            return await request
    except TimeoutError as error:
        raise BackendError(f"{name}: no answer within {seconds:g} s") from error


@contextmanager
def failures_of(sdk: Any, any_error: type[Exception], name: str) -> Iterator[None]:
    """Convert errors of an SDK, raised in the block, to BackendErrors about the server `name`.

    An HTTP error other than 408, 409, 429 and 5xx becomes RejectedError, a server that cannot be
    reached ServerUnavailable. Other errors of the class `any_error`, the base class of the SDK's
    exceptions, and ValueError and RecursionError become BackendError.
    """
    try:
        yield
    except sdk.APIStatusError as error:
        temporary = error.status_code >= 500 or error.status_code in (408, 409, 429)
        raise sdk_error(name, error, BackendError if temporary else RejectedError) from error
    except sdk.APIConnectionError as error:
        # The class is compared by name, because the SDKs use either httpx or httpx2.
        unreachable = type(error.__cause__).__name__ in ("ConnectError", "ConnectTimeout")
        raise sdk_error(name, error, ServerUnavailable if unreachable else BackendError) from error
    except (any_error, ValueError, RecursionError) as error:
        # ValueError and RecursionError: invalid JSON, and Python's limits on digits and nesting.
        raise sdk_error(name, error) from error


def sdk_error(
    name: str, error: BaseException, kind: type[BackendError] = BackendError
) -> BackendError:
    """Return a `kind` with the text "NAME: CLASS: MESSAGE (CAUSE)", on one line."""
    cause = "" if error.__cause__ is None else f" ({error.__cause__})"
    message = printable(f"{error}{cause}", multiline=False)
    if len(message) > LONGEST_QUOTE:
        message = f"{message[:LONGEST_QUOTE]} ..."
    return kind(f"{name}: {type(error).__name__}: {message}")


def no_answer(name: str, reply: Any) -> BackendError:
    """Return a BackendError that quotes a reply of the server `name` without an answer."""
    return BackendError(f"{name}: the server's reply contains no answer: {str(reply)[:200]!r}")
