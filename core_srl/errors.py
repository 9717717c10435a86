"""Documented errors: those of the APIs' SDKs, and memory that is not enough."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from srl_agents.errors import BackendError

_APIS = {"openai": "OpenAI", "anthropic": "Anthropic"}
"""Package of an SDK -> name of its API."""


@contextmanager
def as_documented() -> Iterator[None]:
    """Replace errors of APIs and of GPU memory, raised in the block, by the documented ones.

    A RuntimeError that an SDK's APIError caused becomes a BackendError that is also of the SDK's
    class, such as `openai.RateLimitError`, with its attributes. torch's OutOfMemoryError, or an
    error that it caused, becomes a BackendError: "GPU memory insufficient". The original is the
    cause. Other errors are not changed.
    """
    try:
        yield
    except RuntimeError as error:  # BackendError and torch's errors are RuntimeErrors.
        if (documented := _backend_error(error)) is None:
            raise
        raise documented from error


@contextmanager
def loading(*others: type[Exception]) -> Iterator[None]:
    """Apply `as_documented` in the block, and also rename errors of loading a model.

    A BackendError, or an error of a class in `others`, becomes BackendError("Model loading failed:
    ..."), unless an SDK's error or an OutOfMemoryError caused it.
    """
    with as_documented():
        kinds: tuple[type[Exception], ...] = (BackendError, *others)
        try:
            yield
        except kinds as error:
            raise BackendError(f"Model loading failed: {error}") from error


def _backend_error(error: BaseException) -> BackendError | None:
    cause: BaseException | None = error
    torch = sys.modules.get("torch")
    while cause is not None:
        for package, api in _APIS.items():
            sdk = sys.modules.get(package)  # Only an imported SDK raises errors.
            if sdk is not None and isinstance(cause, sdk.APIError):
                # The SDKs' constructors require the HTTP request, so only attributes are copied.
                kind: Any = type(type(cause).__name__, (BackendError, type(cause)), {})
                made: BackendError = kind.__new__(kind, f"{api} API error: {error}")
                made.__dict__.update(vars(cause))
                return made
        if torch is not None and isinstance(cause, torch.OutOfMemoryError):
            return BackendError(
                f"GPU memory insufficient: {cause}; use a smaller model, shorter conversations or "
                "device='cpu'"
            )
        cause = cause.__cause__
    return None
