"""Schedules: how a run's rounds follow one another."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pkgutil import resolve_name
from typing import ClassVar, Protocol

from srl_train.round import Interruptible, RoundResult, train_round
from srl_train.run import Run


class Schedule(Protocol):
    """Protocol of a schedule, which plays a run's rounds and trains the models on them."""

    @property
    def ahead(self) -> bool:
        """True if models may have trained on rounds that were not returned yet."""

    def next_round(self) -> RoundResult:
        """Complete the next round, with updates; the caller then increases `run.next_round`."""

    def settle(self) -> list[RoundResult]:
        """Complete and return, in order, rounds on which models have trained; maybe none.

        Rounds that `next_round` returned are not included. Until the next call of `next_round`, the
        run's state is that after the last returned round, and can be saved.
        """

    def close(self) -> None:
        """Stop all work; rounds that were not returned are lost."""


class InTurn:
    """Schedule in which a round starts after the models have trained on the previous one."""

    ahead: ClassVar = False

    def __init__(self, run: Run, interruptible: Interruptible) -> None:
        self._run, self._interruptible = run, interruptible

    def next_round(self) -> RoundResult:
        """Call `train_round` for round `run.next_round`, which the caller then increases."""
        return train_round(self._run, self._run.next_round, self._interruptible)

    def settle(self) -> list[RoundResult]:
        """Return no rounds: models train only within `next_round`."""
        return []

    def close(self) -> None:
        """Do nothing."""


def build_schedule(
    run: Run, saves_after: Callable[[int], bool], interruptible: Interruptible = nullcontext
) -> Schedule:
    """Build the schedule that the run's configuration selects.

    Args:
        run: The run.
        saves_after: Round number -> True if a checkpoint follows the round; for play_ahead.
        interruptible: Function that returns a context for episodes; not for play_ahead.
    """
    if not run.config.engine.play_ahead:
        return InTurn(run, interruptible)
    play_ahead = resolve_name("srl_extensions.play_ahead.schedule:PlayAhead")
    schedule: Schedule = play_ahead(run, saves_after)
    return schedule
