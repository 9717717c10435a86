"""Environments that hang or fail."""

from __future__ import annotations

import asyncio
import threading

from srl_envs.games.coop_compete import CoopCompete

FREE = threading.Event()
"""Steps hang until the event is set."""
BEGAN = threading.Event()
"""Set by a step."""
CLOSED = threading.Event()
"""Set when an environment that failed is closed."""


class Hanging(CoopCompete):
    def step(self, actions):
        BEGAN.set()
        FREE.wait()
        return super().step(actions)


class Failing(CoopCompete):
    def step(self, actions):
        raise ZeroDivisionError("a line\nand\x1b[31m another")

    def close(self):
        CLOSED.set()


class Unprintable(Exception):
    def __str__(self):
        raise SystemExit(3)

    __repr__ = __str__


ERRORS = {
    "exit": SystemExit(3),
    "interrupt": KeyboardInterrupt(),
    "cancelled": asyncio.CancelledError(),
    "unprintable": Unprintable(),
}


def hanging():
    return Hanging()
