"""Environments that hang or fail in a step."""

from __future__ import annotations

import threading

from srl_envs.games.coop_compete.env import CoopCompete

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


def hanging():
    return Hanging()


def failing():
    return Failing()
