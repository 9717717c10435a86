"""Work on sessions, done in a thread: one session after another, errors as refusals."""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from srl_envs import loading
from srl_envs.errors import EnvError
from srl_envs.remote.errors import WireError
from srl_envs.remote.server.refusals import Refused

logger = logging.getLogger(__name__)


@dataclass
class Pieces:
    """Pieces of work in order; `results` has what each gave, or why it was refused."""

    pieces: Sequence[Callable[[], Any]]
    stop: threading.Event = field(default_factory=threading.Event)
    """Once set, no further piece begins."""
    results: list[Any] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _abandoned: bool = False

    def __call__(self) -> None:
        """Do the pieces in order until the work is stopped or abandoned."""
        with loading.closed():  # options of resets are others' words
            for piece in self.pieces:
                if self.stop.is_set():
                    return
                try:
                    result = _done(piece)
                except Refused as refusal:
                    # Tracebacks would keep the environment and its records in memory.
                    refusal.__cause__ = refusal.__context__ = None
                    result = refusal.with_traceback(None)
                with self._lock:
                    if self._abandoned:
                        return
                    self.results.append(result)

    def abandon(self) -> int:
        """Stop the work without its current piece, and return the number of this piece."""
        self.stop.set()
        with self._lock:
            self._abandoned = True
            return len(self.results)


def _done(piece: Callable[[], Any]) -> Any:
    """What a piece gives; raises Refused for whatever it raises."""
    try:
        return piece()
    except Refused:
        raise
    except WireError as error:
        raise Refused("INVALID_ARGUMENT", "malformed", error) from error
    except EnvError as error:
        raise Refused("INVALID_ARGUMENT", "wrong use", error) from error
    except BaseException as error:  # signals reach the main thread only: SystemExit is the piece's
        logger.exception("an environment failed")
        # The error's own __str__ and __repr__ may fail too; `traceback` expects this.
        said = "".join(traceback.format_exception_only(error)).rstrip()
        raise Refused("INTERNAL", "failed", f"the environment failed: {said}") from error
