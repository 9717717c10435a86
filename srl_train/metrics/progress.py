"""Progress lines of a run."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, TextIO

from srl_envs.untrusted import printable
from srl_train.metrics.tables import MISSING, share


class Progress:
    """Sink that prints progress lines.

    Args:
        rounds: Planned number of rounds.
        stream: Output stream, by default stderr.
        log_every: Number of rounds per line.
        clock: Function that returns the time in seconds.
    """

    def __init__(
        self,
        rounds: int,
        stream: TextIO | None = None,
        log_every: int = 1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rounds, self._log_every, self._clock = rounds, log_every, clock
        self._stream = sys.stderr if stream is None else stream
        self._last: float | None = None

    def write(self, row: Mapping[str, Any]) -> None:
        """Print a line for a stage's row, and for the first, last and each `log_every`-th round."""
        if "stage" in row:
            losses = ", ".join(f"{n} {_number(m.get('loss'))}" for n, m in row["models"].items())
            self.say(f"{row['stage']} pass {row['pass'] + 1} | loss {losses} | "
                     f"{row['seconds']:.2f} s")  # fmt: skip
            return
        now, done, first = self._clock(), row["round"] + 1, self._last is None
        # The time until the first row includes stages and an evaluation.
        pace = sum(row["seconds"].values()) if self._last is None else now - self._last
        self._last = now
        if first or done % self._log_every == 0 or done == self._rounds:
            left = timedelta(seconds=round(pace * max(0, self._rounds - done)))
            environment = row["environment"]
            parts = [
                f"round {done}/{self._rounds}",
                f"raw reward {_number(environment['raw_reward'])}",
                f"parse failures {share(environment.get('parse_failures'))}",
            ]
            if (rate := environment.get("cooperation_rate")) is not None:
                parts.insert(2, f"cooperation {share(rate)}")
            if failed := environment.get("failed_episodes"):
                parts.append(f"failed episodes {failed} of {environment['episodes']}")
            updates = ", ".join(f"{name} {own['updates']}" for name, own in row["models"].items())
            self.say(" | ".join([*parts, f"updates {updates}", f"{pace:.2f} s/round, {left} left"]))

    def say(self, line: str) -> None:
        """Print a line to the stream at once, with line feeds and control characters escaped."""
        print(printable(line, multiline=False), file=self._stream, flush=True)

    def close(self) -> None:
        """Do nothing; the stream remains open."""


def _number(value: float | None) -> str:
    return MISSING if value is None or not math.isfinite(value) else f"{value:.4f}"
