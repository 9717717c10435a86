"""Progress of a run: a block that rich redraws on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TextIO

from srl_envs.loading import needed_by
from srl_envs.untrusted import printable

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

RECENT_ROUNDS = 10
"""Seconds per round, and with them the time left, are means over this many rounds."""
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
        self._on_terminal = self._stream.isatty() and os.environ.get("TERM") != "dumb"
        self._live: Live | None = None
        self._block: list[RenderableType] = []
        self._seconds: deque[float] = deque(maxlen=RECENT_ROUNDS)
        self._last: float | None = None
        self._first_reward: float | None = None

    def write(self, row: Mapping[str, Any]) -> None:
        """Show the row of one finished round, or of one pass of a stage."""
        if "stage" in row:
            self.say(_stage_line(row))
            return
        now, done = self._clock(), row["round"] + 1
        first = self._last is None
        # Before the first row stand warm start and evaluation: they say nothing about a round.
        self._seconds.append(
            sum(row["seconds"].values()) if self._last is None else now - self._last
        )
        self._last = now
        if first:
            self._first_reward = row["environment"]["raw_reward"]
        if self._on_terminal:
            self._block = self._drawn(row, done)
            self._draw()
        elif first or done % self._log_every == 0 or done == self._rounds:
            parts = [f"round {done}/{self._rounds}", *_play(row), _updates(row), self._pace(done)]
            self._print(" | ".join(parts))

    def status(self, line: str) -> None:
        """Show what is going on: on a terminal below the block, until the next row."""
        if self._on_terminal:
            self._draw(line)
        else:
            self._print(line)

    def say(self, line: str) -> None:
        """Show a line that stays, on a terminal above the block."""
        if self._live is None:
            self._print(line)
        else:
            self._live.console.print(_text(line), soft_wrap=True)

    def close(self) -> None:
        """Leave the last block standing; what is printed next starts below it."""
        if self._live is not None:
            self._live.stop()
            self._live, self._block = None, []
        self._stream.flush()

    def _print(self, line: str) -> None:
        self._stream.write(printable(line, multiline=False) + "\n")
        self._stream.flush()

    def _draw(self, below: str | None = None) -> None:
        from rich.console import Group

        lines = [*self._block, *([] if below is None else [_text(below)])]
        if self._live is None:
            self._live = _live_on(self._stream)
        self._live.update(Group(*lines), refresh=True)

    def _drawn(self, row: Mapping[str, Any], done: int) -> list[RenderableType]:
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        head = Table.grid(padding=(0, 1))
        pace = _text(f"round {done}/{self._rounds}   {self._pace(done)}")
        head.add_row(ProgressBar(self._rounds, done, width=24), pace)
        began = f"(began at {_number(self._first_reward)})"
        return [head, _text("   ".join([*_play(row), began])), _text(_updates(row))]

    def _pace(self, done: int) -> str:
        seconds = sum(self._seconds) / len(self._seconds)
        left = max(0, self._rounds - done)
        return f"{seconds:.2f} s/round   {timedelta(seconds=round(seconds * left))} left"


def _live_on(stream: TextIO) -> Live:
    with needed_by("progress on a terminal"):
        from rich.console import Console
        from rich.live import Live

    console = Console(file=stream, markup=False, emoji=False, highlight=False)
    # Only a row or a notice changes what is shown: no thread draws beside the training's.
    live = Live(console=console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
    live.start()
    console.show_cursor(True)  # rich hides it until the end, which a crash would skip
    return live


def _text(line: str) -> Any:
    """A line in which names and words of others are neither markup nor control sequences."""
    from rich.text import Text

    return Text(printable(line, multiline=False), no_wrap=True, overflow="ellipsis")


def _play(row: Mapping[str, Any]) -> list[str]:
    environment = row["environment"]
    parts = [
        f"raw reward {_number(environment['raw_reward'])}",
        f"cooperation {_share(environment.get('cooperation_rate'))}",
        f"parse failures {_share(environment.get('parse_failures'))}",
    ]
    if failed := environment.get("failed_episodes"):
        parts.append(f"failed episodes {failed} of {environment['episodes']}")
    return parts


def _updates(row: Mapping[str, Any]) -> str:
    told = ", ".join(f"{name} {model['updates']}" for name, model in row["models"].items())
    return f"updates {told}"


def _stage_line(row: Mapping[str, Any]) -> str:
    losses = ", ".join(
        f"{name} {_number(model.get('loss'))}" for name, model in row["models"].items()
    )
    return f"{row['stage']} pass {row['pass'] + 1} | loss {losses} | {row['seconds']:.2f} s"


def _number(value: float | None) -> str:
    return MISSING if value is None or not math.isfinite(value) else f"{value:.4f}"


def _share(value: float | None) -> str:
    return MISSING if value is None or not math.isfinite(value) else f"{100 * value:.1f} %"
