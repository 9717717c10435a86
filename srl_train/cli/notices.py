"""Output of commands: results on stdout, log messages on stderr.

Whatever others wrote into it steers no terminal.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from srl_envs.untrusted import printable

PACKAGES = ("srl_envs", "srl_agents", "srl_train", "srl_extensions", "core_srl")


def tell(text: object = "") -> None:
    """Print what a command has to say, which may hold words and names of others."""
    print(printable(text), flush=True)  # into a pipe too, where nothing more may come for long


class Screen(Protocol):
    """Something that draws on the terminal, and lets others write in between."""

    def say(self, line: str) -> None:
        """A line that stays."""
        ...

    def status(self, line: str) -> None:
        """What is going on right now."""
        ...


class Notices(logging.Handler):
    """Warnings stay; everything below tells what is going on, and is left out where quiet."""

    def __init__(self, command: str = "srl") -> None:
        super().__init__()
        self._command = command

    screen: Screen | None = None
    """Where lines go through, if something is drawn on the terminal."""

    def emit(self, record: logging.LogRecord) -> None:
        """Show the record."""
        line = printable(record.getMessage(), multiline=False)
        warning = record.levelno >= logging.WARNING
        if warning:
            line = f"warning: {line}"
        lines = [f"{self._command}: {line}"]
        if record.exc_info:
            lines += logging.Formatter().formatException(record.exc_info).splitlines()
        for line in lines:
            if self.screen is None:
                print(printable(line, multiline=False), file=sys.stderr, flush=True)
            else:
                (self.screen.say if warning else self.screen.status)(line)


@contextmanager
def shown(
    *, quiet: bool, command: str = "srl", packages: Sequence[str] = PACKAGES
) -> Iterator[Notices]:
    """Show what the packages say within the block, in the name of the command."""
    handler = Notices(command)
    loggers = [logging.getLogger(name) for name in packages]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logging.WARNING if quiet else logging.INFO)
    try:
        yield handler
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.removeHandler(handler)
            logger.setLevel(level)
