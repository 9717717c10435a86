"""Output of commands with control characters escaped: results on stdout, log lines on stderr."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from srl_envs.untrusted import printable

PACKAGES = ("srl_envs", "srl_agents", "srl_train", "srl_extensions", "core_srl")


def tell(text: object = "") -> None:
    """Print text to stdout; control characters except line feeds and tabs are escaped."""
    print(printable(text), flush=True)


class Notices(logging.Handler):
    """Logging handler that prints each message to stderr, after the name of the command."""

    def __init__(self, command: str) -> None:
        super().__init__()
        self._command = command

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record and its traceback to stderr, after "warning: " from level WARNING on."""
        warning = record.levelno >= logging.WARNING
        text = printable(record.getMessage(), multiline=False)
        lines = [f"{self._command}: {'warning: ' if warning else ''}{text}"]
        if record.exc_info:
            lines += logging.Formatter().formatException(record.exc_info).splitlines()
        for line in lines:
            print(printable(line, multiline=False), file=sys.stderr, flush=True)


@contextmanager
def shown(
    *, quiet: bool, command: str = "srl", packages: Sequence[str] = PACKAGES
) -> Iterator[None]:
    """Print log messages of `packages` to stderr in the block, from level INFO on.

    If `quiet`, the level is WARNING. Each message begins with `command`. The loggers are restored
    after the block.
    """
    handler = Notices(command)
    levels = {name: logging.getLogger(name).level for name in packages}
    for name in levels:
        logging.getLogger(name).addHandler(handler)
        logging.getLogger(name).setLevel(logging.WARNING if quiet else logging.INFO)
    try:
        yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).removeHandler(handler)
            logging.getLogger(name).setLevel(level)
