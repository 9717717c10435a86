"""Filters for known harmless warnings of TRL 1.16, PEFT 0.21 and transformers 5.23."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator


@contextlib.contextmanager
def quiet_upstream() -> Iterator[None]:
    """Suppress warnings about `rollout_func` and gradient checkpointing in the block."""
    # Contract tests watch the experimental rollout_func. TRL and PEFT call the deprecated names.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "You are using 'rollout_func'", UserWarning)
        warnings.filterwarnings("ignore", "`gradient_checkpointing` is deprecated", FutureWarning)
        for call in ("enable", "disable"):
            name = f"`gradient_checkpointing_{call}` is deprecated"
            warnings.filterwarnings("ignore", name, FutureWarning)
        warnings.filterwarnings(
            "ignore", "`is_gradient_checkpointing` is deprecated", FutureWarning
        )
        yield
