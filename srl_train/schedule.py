"""Schedules: how a run's rounds follow one another."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import ClassVar, Protocol

from srl_envs.tables import Plugin, PluginTable
from srl_train.errors import ConfigError
from srl_train.round import Interruptible, RoundResult, train_round
from srl_train.run import Run


class Schedule(Protocol):
    """Source of a run's completed rounds, in order."""

    @property
    def ahead(self) -> bool:
        """True if models may have learned from rounds after the last returned one."""
        ...

    def next_round(self) -> RoundResult:
        """Complete and return the run's next round."""
        ...

    def settle(self) -> list[RoundResult]:
        """Return the rounds after the last returned one that models have already learned from.

        Until the next call of `next_round`, the run's state is complete: the state after the last
        round of the result.
        """
        ...

    def close(self) -> None:
        """Stop all work."""
        ...


@dataclass(frozen=True)
class ScheduleContext:
    """Arguments for building a schedule."""

    run: Run
    saves_after: Callable[[int], bool]
    """Function from a round number to whether the complete state is needed after the round."""
    interruptible: Interruptible = nullcontext
    """Context in which a signal may end the program at once."""


class InTurn:
    """Rounds that start after the previous round is learned from."""

    ahead: ClassVar = False

    def __init__(self, context: ScheduleContext) -> None:
        self._run, self._interruptible = context.run, context.interruptible

    def next_round(self) -> RoundResult:
        """Play and learn the next round; raises as `train_round`."""
        return train_round(self._run, self._run.next_round, self._interruptible)

    def settle(self) -> list[RoundResult]:
        """Return no rounds: nothing is learned between two calls."""
        return []

    def close(self) -> None:
        """Do nothing: no work is left between two calls."""


SCHEDULES = PluginTable(
    "core_srl.schedules",
    {
        "in_turn": Plugin("srl_train.schedule:InTurn", "one round after another"),
        "play_ahead": Plugin(
            "srl_extensions.play_ahead.schedule:PlayAhead",
            "rounds played while models learn from earlier ones",
        ),
    },
    ConfigError,
)
"""Name to a function from a `ScheduleContext` to a `Schedule`."""


def build_schedule(context: ScheduleContext) -> Schedule:
    """Build the schedule that the run's configuration selects."""
    name = "play_ahead" if context.run.config.engine.play_ahead else "in_turn"
    schedule: Schedule = SCHEDULES.load(name)(context)
    return schedule
