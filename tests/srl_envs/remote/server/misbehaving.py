"""Environments that hang or fail in a step."""

from __future__ import annotations

import asyncio
import threading

from srl_envs.games.coop_compete import CoopCompete

HELD = threading.Event()
"""Steps hang until it is set."""
BEGAN = threading.Event()
"""Set by a step."""


class Hanging(CoopCompete):
    def step(self, actions):
        BEGAN.set()
        HELD.wait()
        return super().step(actions)


class Failing(CoopCompete):
    def step(self, actions):
        raise ZeroDivisionError("a line\nand\x1b[31m another")


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


def broken(error):
    raise ERRORS[error]


def hanging():
    return Hanging()


def failing():
    return Failing()
