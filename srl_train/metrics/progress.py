"""How training goes, while it goes: a refreshed block on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
import os
import shutil
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from srl_envs.loading.untrusted import printable

RECENT_ROUNDS = 10
"""Seconds per round, and with them the time left, are means over this many rounds."""
BAR_CELLS = 24
MISSING = "\N{EN DASH}"


class Progress:
    """A sink that shows each row to whoever watches.

    On a terminal one block of lines is redrawn in place. Anywhere else (a file, a pipe, a
    terminal that calls itself dumb) every `log_every`-th round, the first and the last are
    printed as one plain line each.
    """

    def __init__(
        self,
        rounds: int,
        stream: TextIO | None = None,
        log_every: int = 1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rounds = rounds
        self._stream = sys.stderr if stream is None else stream
        self._log_every = log_every
        self._clock = clock
        self._live = self._stream.isatty() and os.environ.get("TERM") != "dumb"
        self._drawn = 0
        self._shown: list[str] = []
        self._seconds: deque[float] = deque(maxlen=RECENT_ROUNDS)
        self._last: float | None = None
        self._first_reward: float | None = None

    def write(self, row: Mapping[str, Any]) -> None:
        """Show the row of one finished round, or of one pass of a stage."""
        if "stage" in row:
            self.say(_stage_line(row))
            return
        now = self._clock()
        # Before the first row stand warm start and evaluation: they say nothing about a round.
        spent = sum(row["seconds"].values()) if self._last is None else now - self._last
        self._last = now
        self._seconds.append(spent)
        if self._first_reward is None:
            self._first_reward = row["environment"]["raw_reward"]
        if self._live:
            self._shown = self._block(row)
            self._redraw(self._shown)
            return
        done = row["round"] + 1
        if self._drawn == 0 or done % self._log_every == 0 or done == self._rounds:
            self._drawn += 1
            self._write([self._plain_line(row)])

    def status(self, line: str) -> None:
        """Show what is going on: on a terminal below the block, until the next row."""
        if self._live:
            self._redraw([*self._shown, line])
        else:
            self._write([line])

    def say(self, line: str) -> None:
        """Show a line that stays."""
        if self._live:  # above the block; it is not cut, for it will not be redrawn
            self._redraw([])
            self._write([line])
            self._redraw(self._shown)
        else:
            self.status(line)

    def close(self) -> None:
        """Leave the last block standing; what is printed next starts below it."""
        self._stream.flush()

    def _redraw(self, lines: list[str]) -> None:
        width = shutil.get_terminal_size().columns
        up = f"\x1b[{self._drawn}F\x1b[J" if self._drawn else ""
        # A line that wrapped would take two rows, and the next redraw would climb too little.
        self._stream.write(up)
        self._write(lines, width - 1)
        self._drawn = len(lines)

    def _write(self, lines: list[str], width: int | None = None) -> None:
        """Lines in which names and words of others steer no terminal."""
        shown = [printable(line, multiline=False)[:width] for line in lines]
        self._stream.write("".join(line + "\n" for line in shown))
        self._stream.flush()

    def _block(self, row: Mapping[str, Any]) -> list[str]:
        done, environment = row["round"] + 1, row["environment"]
        filled = round(BAR_CELLS * min(1.0, done / self._rounds))
        bar = "█" * filled + "░" * (BAR_CELLS - filled)
        failed = environment.get("failed_episodes") or 0
        play = [
            f"raw reward {_number(environment['raw_reward'])}"
            f" (began at {_number(self._first_reward)})",
            f"cooperation {_share(environment.get('cooperation_rate'))}",
            f"parse failures {_share(environment.get('parse_failures'))}",
        ]
        if failed:
            play.append(f"failed episodes {failed} of {environment['episodes']}")
        return [
            f"{bar} round {done}/{self._rounds}   {self._pace(done)}",
            "   ".join(play),
            f"updates   {self._updates(row, '   ')}",
        ]

    def _plain_line(self, row: Mapping[str, Any]) -> str:
        done, environment = row["round"] + 1, row["environment"]
        parts = [
            f"round {done}/{self._rounds}",
            f"raw reward {_number(environment['raw_reward'])}",
            f"cooperation {_share(environment.get('cooperation_rate'))}",
            f"parse failures {_share(environment.get('parse_failures'))}",
            f"updates {self._updates(row, ', ')}",
            self._pace(done),
        ]
        if failed := environment.get("failed_episodes"):
            parts.insert(4, f"failed episodes {failed} of {environment['episodes']}")
        return " | ".join(parts)

    def _updates(self, row: Mapping[str, Any], between: str) -> str:
        return between.join(f"{name} {model['updates']}" for name, model in row["models"].items())

    def _pace(self, done: int) -> str:
        seconds = sum(self._seconds) / len(self._seconds)
        left = max(0, self._rounds - done)
        return f"{seconds:.2f} s/round   {_clock_time(seconds * left)} left"


def _stage_line(row: Mapping[str, Any]) -> str:
    losses = ", ".join(
        f"{name} {_number(model.get('loss'))}" for name, model in row["models"].items()
    )
    return f"{row['stage']} pass {row['pass'] + 1} | loss {losses} | {row['seconds']:.2f} s"


def _number(value: float | None) -> str:
    return MISSING if value is None or not math.isfinite(value) else f"{value:.4f}"


def _share(value: float | None) -> str:
    return MISSING if value is None or not math.isfinite(value) else f"{100 * value:.1f} %"


def _clock_time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
