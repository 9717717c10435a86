"""HTTP client and retry policy of all network requests.

The retries of the SDKs are disabled, because they count attempts and have no deadline.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

from srl_agents.errors import BackendError, ServerUnavailable
from srl_envs.loading import needed_by
from srl_envs.untrusted import printable
from srl_envs.validation import is_loopback


def http_client(sdk: Any, url: str, *, most_bytes: int) -> Any:
    """Return the HTTP client with which an SDK (`openai` or `anthropic`) sends its requests.

    Loopback addresses are contacted without a proxy. Redirections are not followed, because a
    reply could otherwise choose the receiver of the prompts.

    Args:
        sdk: Module of the SDK.
        url: Address of the server; empty for the SDK's default.
        most_bytes: Maximum size of a response body after decompression. A larger body raises
            BackendError, which the SDK wraps in its APIConnectionError.

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
    is_local = is_loopback(address.hostname or "")

    class Client(sdk.DefaultAsyncHttpxClient):  # type: ignore[misc]
        async def send(self, request: Any, *, stream: bool = False, **settings: Any) -> Any:
            response = await super().send(request, stream=True, **settings)
            body = bytearray()
            try:
                async for piece in response.aiter_bytes():  # decompressed incrementally
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
TRANSIENT = frozenset({408, 409, 429, 500, 502, 503, 504, 529})
"""HTTP statuses that are retried; 529 is Anthropic's status of an overloaded server."""
SPENT = "insufficient_quota"
"""OpenAI's error code of an exhausted account: status 429, but not retried."""
LONGEST_QUOTE = 1000
"""Maximum number of characters quoted from a server's message."""

log = logging.getLogger(__name__)


class TransientError(BackendError):
    """Failure of an attempt that is retried."""

    def __init__(self, message: str, *, retry_after: float = 0.0, unreachable: bool = False):
        super().__init__(message)
        self.retry_after = retry_after
        """Minimum number of seconds before the next attempt."""
        self.unreachable = unreachable
        """True if no connection was made."""


class RejectedError(BackendError):
    """Refusal of a request by the server, which is not retried."""


@dataclass(frozen=True)
class RetryPolicy:
    """Deadlines of a request, and waiting times between its attempts."""

    deadline: float
    """Seconds for all attempts together."""
    unreachable: float
    """Seconds for all attempts while the server accepts no connection."""
    first_wait: float = 0.5
    """Upper limit in seconds of the first random wait; doubled after each attempt (full jitter)."""
    longest_wait: float = 30.0
    """Upper limit in seconds of a random wait."""

    async def run(self, name: str, attempt: Callable[[], Awaitable[T]]) -> T:
        """Await `attempt()`, again after each TransientError, and return its result.

        Raises ServerUnavailable if the server `name` accepted no connection for `unreachable`
        seconds, and BackendError at the deadline. Other errors of `attempt` are raised at once.
        """
        with needed_by(name, BackendError):
            import tenacity
        tries = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception_type(TransientError),
            wait=tenacity.wait_exception(lambda error: getattr(error, "retry_after", 0.0))
            + tenacity.wait_random_exponential(self.first_wait, self.longest_wait),
            stop=self._is_over,
            before_sleep=tenacity.before_sleep_log(log, logging.INFO),
            reraise=True,
        )

        async def once() -> T:  # tenacity awaits coroutine functions only.
            return await attempt()

        try:
            async with asyncio.timeout(self.deadline):
                return await tries(once)
        except TimeoutError as error:
            raise BackendError(f"{name}: no answer within {self.deadline:g} s") from error
        except TransientError as error:
            kind = ServerUnavailable if error.unreachable else BackendError
            raise kind(str(error)) from error

    def _is_over(self, state: Any) -> bool:
        bound = self.unreachable if state.outcome.exception().unreachable else self.deadline
        return bool(state.seconds_since_start + state.upcoming_sleep >= bound)


@contextmanager
def failures_of(sdk: Any, any_error: type[Exception], name: str) -> Iterator[None]:
    """Convert errors of an SDK, raised in the block, to errors of this project.

    Failures that are worth a retry become TransientError, refusals RejectedError, and all others
    BackendError. `any_error` is the base class of the SDK's exceptions.
    """
    try:
        yield
    except sdk.APIStatusError as error:
        if error.status_code not in TRANSIENT or getattr(error, "code", None) == SPENT:
            raise RejectedError(str(sdk_error(name, error))) from error
        wait = retry_after(error.response.headers)
        raise TransientError(str(sdk_error(name, error)), retry_after=wait) from error
    except sdk.APIConnectionError as error:
        if isinstance(error.__cause__, BackendError):  # The reply exceeded `most_bytes`.
            raise BackendError(f"{name}: {error.__cause__}") from error
        # The class is compared by name, because the SDKs use either httpx or httpx2.
        unreachable = type(error.__cause__).__name__ in ("ConnectError", "ConnectTimeout")
        raise TransientError(str(sdk_error(name, error)), unreachable=unreachable) from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise TransientError(str(sdk_error(name, error))) from error
    except (any_error, ValueError, RecursionError) as error:
        # ValueError and RecursionError: Python's limits on the digits of a number and on nesting.
        raise sdk_error(name, error) from error


def sdk_error(name: str, error: BaseException) -> BackendError:
    """Return a BackendError with the message and the cause of an SDK's error.

    The text is printable, on one line, and limited to LONGEST_QUOTE characters.
    """
    cause = "" if error.__cause__ is None else f" ({error.__cause__})"
    message = printable(f"{error}{cause}", multiline=False)
    if len(message) > LONGEST_QUOTE:
        message = f"{message[:LONGEST_QUOTE]} ..."
    return BackendError(f"{name}: {type(error).__name__}: {message}")


def no_answer(name: str, reply: Any) -> TransientError:
    """Return the error for a reply of the server `name` that contains no answer."""
    return TransientError(f"{name}: the server's reply contains no answer: {str(reply)[:200]!r}")


def retry_after(headers: Mapping[str, str]) -> float:
    """Return the seconds of the header Retry-After, or 0 if it is missing or no number."""
    value = headers.get("retry-after", "")
    return float(value) if value.replace(".", "", 1).isdecimal() else 0.0
