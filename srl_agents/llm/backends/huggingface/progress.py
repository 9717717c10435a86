"""Loading and saving of models without transformers' progress bars."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from transformers.utils import logging


@contextmanager
def no_bars() -> Iterator[None]:
    """Without the bars over weights and shards. Downloads, which may take long, keep theirs, and
    what a user has chosen for transformers holds again afterwards."""
    before = logging.set_tqdm_hook(_hidden)
    try:
        yield
    finally:
        logging.set_tqdm_hook(before)


def _hidden(bar: Callable[..., Any], args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    return bar(*args, **{**settings, "disable": True})
