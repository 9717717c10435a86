"""Output of commands: results on stdout, log messages on stderr, without control characters."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from srl_envs.untrusted import printable

PACKAGES = ("srl_envs", "srl_agents", "srl_train", "srl_extensions", "core_srl")


def tell(text: object = "") -> None:
    """Print the result of a command."""
    print(printable(text), flush=True)


class Screen(Protocol):
    """Owner of the terminal."""

    def say(self, line: str) -> None:
        """Print a line that stays."""

    def status(self, line: str) -> None:
        """Show the current activity."""


class Notices(logging.Handler):
    """Handler that prints warnings as lines, and other messages as the current activity."""

    def __init__(self, command: str = "srl") -> None:
        super().__init__()
        self._command = command

    screen: Screen | None = None
    """Owner of the terminal, if there is one."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print the record."""
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
    """Print the log messages of the packages within the block."""
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
