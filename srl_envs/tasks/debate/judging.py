"""Records of a debate, and the Judge protocol with its verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from srl_envs.errors import EnvError

PRO, CON, TIE = "pro", "con", "tie"
SIDES = (PRO, CON)
VERDICTS = (PRO, CON, TIE)
MARGIN = 0.02  # scores that are nearer to each other are a tie


class JudgeError(EnvError):
    """A debate cannot be judged: its episode has failed, and counts for nobody."""


def other(side: str) -> str:
    """The opponent's side."""
    return CON if side == PRO else PRO


@dataclass(frozen=True)
class Speech:
    """One side's words in one round."""

    side: str
    round: int
    """From 1."""
    text: str
    """One line; empty where nothing was said that could be read."""


@dataclass(frozen=True)
class Debate:
    """A motion, and what was said on it so far, in order."""

    motion: str
    speeches: tuple[Speech, ...] = ()
    simultaneous: bool = True
    """The speeches of one round were written without knowledge of each other."""

    def by(self, side: str) -> list[Speech]:
        """One side's speeches."""
        return [speech for speech in self.speeches if speech.side == side]

    def heard_before(self, speech: Speech) -> list[Speech]:
        """The speeches that its speaker had heard, its own included."""
        place = self.speeches.index(speech)
        return [
            said
            for said in self.speeches[:place]
            if not self.simultaneous or said.round < speech.round
        ]


@dataclass(frozen=True)
class Verdict:
    """Score of each side, 0 to 1, and plain data on how it was found."""

    pro: float
    con: float
    info: Mapping[str, Any] = field(default_factory=dict)
    of_side: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Side -> plain data for that side alone, such as its features."""

    def score(self, side: str) -> float:
        """One side's."""
        return self.pro if side == PRO else self.con

    @property
    def winner(self) -> str:
        """ "pro", "con", or "tie" for scores within MARGIN."""
        if abs(self.pro - self.con) <= MARGIN:
            return TIE
        return PRO if self.pro > self.con else CON


EVEN = Verdict(0.5, 0.5)
"""When nothing has been said."""


class Judge(Protocol):
    """A judge of debates: to make one of your own, write this one method."""

    def judge(self, debate: Debate) -> Verdict:
        """The verdict on what was said. The same debate should get the same. Raises JudgeError
        where there can be none."""
        ...
