"""HTTP client and retry policy of all network requests.

The retries of the SDKs are off: they count attempts and have no deadline.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar
from urllib.parse import urlsplit

from srl_agents.errors import BackendError, ServerUnavailable
from srl_envs.loading import needed_by
from srl_envs.untrusted import printable
from srl_envs.validation import is_loopback


def http_client(sdk: Any, url: str, *, most_bytes: int) -> Any:
    """Return the `http_client` with which the SDK (`openai` or `anthropic`) sends its requests.

    A proxy for the internet does not lead to this machine, so loopback addresses get none.
    Redirections are not followed, because a reply would decide where the prompts go.

    Args:
        sdk: Module of the SDK.
        url: Address of the server; empty for the SDK's default. Raises BackendError if it is no
            HTTP address: the SDK would retry it until the deadline.
        most_bytes: Limit of a response body after decompression. A longer one raises BackendError,
            which the SDK wraps in its APIConnectionError.
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


T = TypeVar("T")
TRANSIENT = frozenset({408, 409, 429, 500, 502, 503, 504, 529})
"""Statuses worth another attempt; 529 is an overloaded server of Anthropic."""
SPENT = "insufficient_quota"
"""OpenAI's permanent error code with status 429."""
LONGEST_QUOTE = 1000
"""Limit of quoted server messages in characters."""

log = logging.getLogger(__name__)


class TransientError(BackendError):
    """Failure that is worth another attempt."""

    def __init__(self, message: str, *, retry_after: float = 0.0, unreachable: bool = False):
        """`retry_after` is in seconds; `unreachable` means no connection."""
        super().__init__(message)
        self.retry_after = retry_after
        self.unreachable = unreachable


class RejectedError(BackendError):
    """The server refused the request; another attempt would fail too."""


@dataclass(frozen=True)
class RetryPolicy:
    """Deadlines and waits of repeated attempts."""

    deadline: float
    """Seconds for all attempts of a request."""
    unreachable: float
    """Seconds for a server without a connection."""
    first_wait: float = 0.5
    """Limit of the first random wait in seconds; doubled after each attempt (full jitter)."""
    longest_wait: float = 30.0
    """Limit of a wait in seconds, unless Retry-After is longer."""

    async def run(self, name: str, attempt: Callable[[], Awaitable[T]]) -> T:
        """Return the result of `attempt`, repeated after each TransientError until the deadline.

        Raises BackendError at the deadline, or at once for other failures, and ServerUnavailable if
        the server accepted no connection.
        """
        with needed_by(name, BackendError):
            import tenacity
        tries = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception_type(TransientError),
            wait=tenacity.wait_exception(lambda error: getattr(error, "retry_after", 0.0))
            + tenacity.wait_random_exponential(self.first_wait, self.longest_wait),
            stop=self._is_over,
            before_sleep=_tell,
            reraise=True,
        )
        failures: list[TransientError] = []

        async def once() -> T:
            try:
                return await attempt()
            except TransientError as error:
                failures.append(error)
                raise

        try:
            async with asyncio.timeout(self.deadline):
                return await tries(once)
        except TimeoutError as error:
            before = f"; before that: {failures[-1]}" if failures else ""
            raise BackendError(
                f"{name}: no answer within {self.deadline:g} s "
                f"(attempts: {len(failures) + 1}){before}"
            ) from error
        except TransientError as error:
            kind = ServerUnavailable if error.unreachable else BackendError
            raise kind(f"{error} (attempts: {len(failures)})") from error

    def _is_over(self, state: Any) -> bool:
        bound = self.unreachable if state.outcome.exception().unreachable else self.deadline
        return bool(state.seconds_since_start + state.upcoming_sleep >= bound)


@contextmanager
def failures_of(sdk: Any, any_error: type[Exception], name: str) -> Iterator[None]:
    """Convert an SDK's errors to BackendError, and transient ones to TransientError."""
    try:
        yield
    except sdk.APIStatusError as error:
        if error.status_code not in TRANSIENT or getattr(error, "code", None) == SPENT:
            raise RejectedError(str(told(name, error))) from error
        wait = retry_after(error.response.headers)
        raise TransientError(str(told(name, error)), retry_after=wait) from error
    except sdk.APIConnectionError as error:
        if isinstance(error.__cause__, BackendError):  # http_client refused the reply
            raise BackendError(f"{name}: {error.__cause__}") from error
        # By name, for the SDKs speak through httpx or through httpx2.
        unreachable = type(error.__cause__).__name__ in ("ConnectError", "ConnectTimeout")
        raise TransientError(str(told(name, error)), unreachable=unreachable) from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise TransientError(str(told(name, error))) from error
    except (any_error, ValueError, RecursionError) as error:
        # Python's limits on a number's digits and on nesting are neither the SDK's nor JSON's.
        raise told(name, error) from error


def told(name: str, error: BaseException) -> BackendError:
    """Return an error of an SDK with its cause as BackendError, shortened and printable."""
    cause = "" if error.__cause__ is None else f" ({error.__cause__})"
    said = printable(f"{error}{cause}", multiline=False)
    if len(said) > LONGEST_QUOTE:
        said = f"{said[:LONGEST_QUOTE]} ..."
    return BackendError(f"{name}: {type(error).__name__}: {said}")


def no_answer(name: str, came: Any) -> TransientError:
    """Return the error of a reply without an answer."""
    return TransientError(f"{name}: the server's reply holds no answer: {str(came)[:200]!r}")


def retry_after(headers: Mapping[str, str]) -> float:
    """Return the seconds of Retry-After (RFC 9110, 10.2.3) or retry-after-ms; 0 without one."""
    for name, scale in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        said = headers.get(name)
        if said is None:
            continue
        try:
            if said.replace(".", "", 1).isdecimal():
                return float(said) * scale
            return max(0.0, parsedate_to_datetime(said).timestamp() - time.time())
        except (ValueError, OverflowError):
            log.debug("%s is %r: neither a number nor a date", name, said)
    return 0.0


def _tell(state: Any) -> None:
    log.info("%s; attempt again in %.1f s", state.outcome.exception(), state.upcoming_sleep)
