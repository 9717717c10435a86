"""Errors as the documents name them: an API's own kinds, and memory that is not enough."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from srl_agents.errors import BackendError

_APIS = {"openai": "OpenAI", "anthropic": "Anthropic"}
"""An SDK's package -> whose API it speaks to."""


@contextmanager
def as_documented() -> Iterator[None]:
    """Errors within, raised as the documented ones where they come from what these name.

    An error of an API is a BackendError and the SDK's own kind (`openai.RateLimitError`,
    `anthropic.APIConnectionError`, ...) with its attributes. "GPU memory insufficient" is a
    BackendError, and so a RuntimeError, with torch's own error as cause.
    """
    try:
        yield
    except RuntimeError as error:  # as BackendError and torch's error are
        if (documented := _documented(error)) is None:
            raise
        raise documented from error


def _documented(error: BaseException) -> BackendError | None:
    cause: BaseException | None = error
    while cause is not None:
        for package, api in _APIS.items():
            sdk = sys.modules.get(package)  # an error of an SDK that nobody imported is none
            if sdk is not None and isinstance(cause, sdk.APIError):
                return _of_api(f"{api} API error: {error}", cause)
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(cause, torch.OutOfMemoryError):
            return BackendError(
                f"GPU memory insufficient: {cause}; take a smaller model, shorter conversations "
                "or device='cpu'"
            )
        cause = cause.__cause__
    return None


def _of_api(words: str, cause: BaseException) -> BackendError:
    # The SDKs' constructors want the HTTP request again; what they made of it is all there.
    own: Any = type(cause)
    kind: Any = _both(own)
    made: BackendError = kind.__new__(kind, words)
    made.__dict__.update(vars(cause))
    return made


@functools.cache
def _both(kind: Any) -> type:
    return type(kind.__name__, (BackendError, kind), {"__module__": __name__})
