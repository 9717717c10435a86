"""Opponent modelling in the prompt: a text summary of what the other agents did so far.

The classic OurMethodPolicy keeps beliefs about its partner; a language model is told them. Only
what the environment shows the agent is used: its observations of this game.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from srl_agents.baselines.opponent_model import PartnerModel
from srl_agents.scripted.memory_one import START, SituationReader, situation_after
from srl_agents.scripted.registry import READERS

History = tuple[tuple[int, int], ...]
"""(own action, the others') per round so far; 1 cooperates."""
REMEMBERED = 65536  # histories whose forecast is kept: a game of 8 rounds has up to 4**8 of them


class PartnerNotes:
    """One line about the others, from what `reader` sees of each round.

    With several others, "the others" are their majority, as for every classic policy; in a game of
    teams, whoever the reader looks at (the rivals).
    """

    def __init__(self, reader: SituationReader) -> None:
        self._reader = reader

    def after(self, history: History, observation: object) -> History:
        """The history with the round that `observation` tells of; empty before the first."""
        situation = self._reader(observation)
        if situation == START:
            return ()
        return (*history, divmod(situation - 1, 2))

    def line(self, history: History) -> str:
        """How often they cooperated, after which own action, and what is expected of them next.

        Empty before anything has been seen.
        """
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


@lru_cache(maxsize=REMEMBERED)
def expected(history: History) -> float:
    """The chance that they cooperate next, by `PartnerModel` from this game alone.

    A player that keeps one chance and one that replies to the round before are thought equally
    likely at first. Those that change from game to game say nothing within one. `history` is not
    empty.
    """
    model = PartnerModel(1, 1.0, ("stationary", "reactive"))
    rounds = np.array(history, np.int8)
    model.add(rounds[None, :, 0], rounds[None, :, 1])
    return float(model.replies()[0, situation_after(*history[-1]), 1])


def notes_for(env: Any) -> PartnerNotes:
    """The notes of an environment.

    Raises ValueError where its observations are not known to tell what the others did.
    """
    name = env.metadata["name"]
    if name not in READERS:
        raise ValueError(
            f"partner notes cannot be read off {name}'s observations, only off those of "
            f"{', '.join(READERS)}"
        )
    return PartnerNotes(READERS[name](env.unwrapped))
