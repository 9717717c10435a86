"""Opponent notes in the prompt: a summary of the actions that the agent has observed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np

from srl_agents.baselines.opponent_model import PartnerModel
from srl_agents.policy import AgentObservation
from srl_agents.scripted.entries import READERS
from srl_agents.scripted.memory_one import START, SituationReader, situation_after

History = tuple[tuple[int, int], ...]
"""(own action, the others') per round so far; 1 cooperates."""
REMEMBERED = 65536  # histories whose forecast is kept: a game of 8 rounds has up to 4**8 of them


class PartnerNotes:
    """One line about the opponents (their majority), from the rounds that `reader` sees."""

    def __init__(self, reader: SituationReader) -> None:
        self._reader = reader

    def after(self, history: History, observation: object) -> History:
        """Return the history with the round in `observation`."""
        situation = self._reader(observation)
        return () if situation == START else (*history, divmod(situation - 1, 2))

    def line(self, history: History) -> str:
        """Return cooperation rates and the predicted next action; empty without history."""
        if not history:
            return ""
        theirs = [other for _, other in history]
        words = f"Others cooperating so far: {sum(theirs)} of {len(theirs)}"
        for action, name in ((1, "cooperate"), (0, "compete")):
            replies = [
                other for (own, _), other in zip(history, theirs[1:], strict=False) if own == action
            ]
            if replies:
                words += f"; after you {name}: {sum(replies)} of {len(replies)}"
        return f"{words}; chance next: {expected(history):.0%}."


S = TypeVar("S")


def with_history(
    notes: PartnerNotes | None, seen: Sequence[AgentObservation], states: Sequence[S]
) -> list[S]:
    """Return the memories with the round of each observation in their `history`."""
    if notes is None:
        return list(states)
    return [
        replace(state, history=notes.after(state.history, one.observation))  # type: ignore
        for one, state in zip(seen, states, strict=True)
    ]


@lru_cache(maxsize=REMEMBERED)
def expected(history: History) -> float:
    """Return the predicted probability of cooperation, by `PartnerModel` from this episode alone.

    A stationary and a reactive opponent are equally likely at first. `history` is not empty.
    """
    model = PartnerModel(1, 1.0, ("stationary", "reactive"))
    rounds = np.array(history, np.int8)
    model.add(rounds[None, :, 0], rounds[None, :, 1])
    return float(model.replies()[0, situation_after(*history[-1]), 1])


def notes_for(env: Any) -> PartnerNotes:
    """Return the notes of an environment; raise ValueError if its observations are not
    supported."""
    name = env.metadata["name"]
    if name not in READERS:
        raise ValueError(
            f"partner notes cannot be read off {name}'s observations, only off those of "
            f"{', '.join(READERS)}"
        )
    return PartnerNotes(READERS[name](env.unwrapped))
