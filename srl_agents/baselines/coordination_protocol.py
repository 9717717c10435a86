"""Coordination on a joint choice by two learners of one kind that see only their own rewards.

Everything here depends on the two players' actions alone, which both see, so both players are
always in the same place. Private rewards enter only through the ballots, and ballots are actions.

Rounds are counted in cycles of CYCLE. Each cycle opens with a ballot of two rounds: (1, 1) votes
for cooperating, (0, 0) for competing, (1, 0) says "not sure yet". The rest of the cycle both
cooperate for its first half and both compete for its second, so that each measures both
agreements. After a ballot:

- two equal votes, or one vote beside a "not sure", are adopted by both for good;
- two "not sure" or two opposed votes: another cycle of measuring;
- in the cycle LAST_CYCLE everyone must vote, and opposed votes mean cooperating.

Opposed votes in the end need two agreements that pay almost the same, so the rule costs nothing.

A partner who ever does otherwise does not follow the protocol, and is not expected to again. In
the first cycle nothing is known yet, so an honest ballot there says "not sure".
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

CYCLE = 32  # rounds
BALLOT = 2  # rounds at the start of each cycle
LAST_CYCLE = 16  # counted from 0
CONFIDENCE = 3.5  # standard errors between the two agreements that make a vote

UNDECIDED = -1


def measuring_action(position: int) -> int:
    """What both play at this place of a cycle: (1, 0), then half a cycle each of 1 and 0."""
    if position < BALLOT:
        return 1 - position
    return int(position < BALLOT + (CYCLE - BALLOT) // 2)


class PublicProtocol:
    """The protocol's state for N pairs of players, as either of the two sees it."""

    def __init__(self, runs: int) -> None:
        self._clock = 0
        self._vote = np.full(runs, UNDECIDED, np.int8)
        self._leaning = np.ones(runs, np.int8)
        self._cast = self._vote  # fixed when a ballot opens
        self._ballots = np.zeros((2, BALLOT, runs), np.int8)  # own and other's, this cycle
        self.followed = np.ones(runs, bool)
        """Whether the partner has kept to the protocol so far: (N,)."""
        self.choice = np.full(runs, UNDECIDED, np.int8)
        """What was adopted for good, or UNDECIDED: (N,)."""

    def vote(self, gap_N: NDArray[np.float64], error_N: NDArray[np.float64]) -> None:
        """Set the vote for ballots to come, from how much more (1, 1) pays than (0, 0)."""
        sure = np.abs(gap_N) > CONFIDENCE * error_N
        self._leaning = (gap_N >= 0).astype(np.int8)
        self._vote = np.where(sure, self._leaning, UNDECIDED).astype(np.int8)

    def act(self) -> NDArray[np.int8]:
        """The own action this round: (N,)."""
        cycle, position = divmod(self._clock, CYCLE)
        planned = np.full(self.choice.shape, measuring_action(position), np.int8)
        if position < BALLOT and cycle > 0:
            if position == 0:
                self._cast = self._leaning if cycle >= LAST_CYCLE else self._vote
            planned = np.where(self._cast == UNDECIDED, planned, self._cast)
        return np.where(self.choice == UNDECIDED, planned, self.choice).astype(np.int8)

    def observe(self, own_N: NDArray[np.int8], other_N: NDArray[np.int8]) -> None:
        """Take in one round."""
        cycle, position = divmod(self._clock, CYCLE)
        self._clock += 1
        open_ = self.choice == UNDECIDED
        if cycle > 0 and position < BALLOT:
            self._ballots[0, position], self._ballots[1, position] = own_N, other_N
            self.followed &= open_ | (own_N == other_N)
            if position == BALLOT - 1:
                self._count_votes(open_, cycle >= LAST_CYCLE)
        else:
            self.followed &= own_N == other_N

    def _count_votes(self, open_N: NDArray[np.bool_], last: bool) -> None:
        (own_1, own_2), (other_1, other_2) = self._ballots
        own = np.where(own_1 == own_2, own_1, UNDECIDED)
        other = np.where(other_1 == other_2, other_1, UNDECIDED)
        self.followed &= ~(open_N & (other_1 < other_2))  # (0, 1) is no ballot
        if last:
            self.followed &= ~(open_N & (other == UNDECIDED))
        adopted = np.where(own == UNDECIDED, other, own)
        opposed = (own != UNDECIDED) & (other != UNDECIDED) & (own != other)
        adopted = np.where(opposed, 1 if last else UNDECIDED, adopted)
        self.choice = np.where(open_N & self.followed, adopted, self.choice).astype(np.int8)
