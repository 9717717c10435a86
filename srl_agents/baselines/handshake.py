"""Handshake of two OurMethodPolicy players, which send their payoffs as actions.

A player plays the code CALL in its first rounds. A partner that recognizes the code answers, and
the caller leads; if both call at once, random bits choose the leader. The phases depend only on
actions that both players observe:

1. Both play the candidate joint actions until both know their rewards.
2. Each sends its mean reward of each candidate in BITS bits, and the noise of its rewards.
3. Both compute the same fair cycle (`solutions`). If another joint action may be better within
   the noise, the remaining candidates are measured and sent again.

Costless messages select fair and efficient outcomes in repeated games (Crandall et al. 2018,
"Cooperating with machines"). The handshake ends if the partner deviates from the protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from srl_agents.arrays import Floats
from srl_agents.baselines.solutions import Agreement, Cell, fair_cycle, maximin, product_of_gains

CALL = (1, 0, 1, 1, 0, 1, 1, 1, 0, 0, 0, 0)  # balanced; no shift of it overlaps with itself
ANSWER = (1, 1, 1, 1)  # not contained in CALL
COINS = 32  # number of random bits for the choice of a leader
SAMPLES = 3  # rewards of each joint action before the first exchange
BITS = 5  # bits of a mean reward, which is scaled to the range of the player's rewards
NOISE_BITS = 4
PRECISION = 0.025  # target standard error of a mean reward, as a share of the range
MOST_SAMPLES = 128
DOUBT = 2.0  # standard errors within which a joint action remains a candidate

_Phase = Callable[[list[int]], None]


class Handshake:
    """Protocol by which two players of a repeated game of K actions agree on a cycle of actions.

    In each round, call `act` and then `observe`, until `over` is True or `agreed` is set. Call
    `know` when rewards are known. `calls` is True to send the code CALL, and False to answer a
    partner that sent it. If both players call, `coins`, random bits, choose the leader.
    """

    def __init__(self, actions: int, coins: Sequence[int], *, calls: bool) -> None:
        self._coins = [int(coin) for coin in coins]
        self._leads = calls
        self._mean_KK = np.zeros((actions, actions))
        self._count_KK = np.zeros((actions, actions))
        self._noise = 0.0
        self._least = self._range = 0.0
        self._needed = SAMPLES
        cells = [(own, other) for own in range(actions) for other in range(actions)]
        self._cells: list[Cell] = cells  # candidates, (leader's action, follower's action)
        self._sent = np.zeros((2, actions, actions))  # rewards sent by leader and follower
        self._again = False  # True in the second exchange
        self.over = False
        """True if the partner deviated from the protocol, or no coins are left."""
        self.agreed: tuple[tuple[int, ...], tuple[int, ...]] | None = None
        """Own and partner's actions of the agreed cycle; None before the agreement."""
        if calls:
            self._begin(CALL, None, self._called)
        else:
            self._begin(ANSWER, (0,) * len(ANSWER), self._ask)

    def act(self) -> int:
        """Return this player's action in the current round, from 0 to K - 1."""
        return self._own[len(self._heard)]

    def observe(self, other: int) -> None:
        """Record the partner's action; set `over` after a failure, `agreed` after an agreement."""
        expected = self._expected
        if other > 1 if expected is None else other != expected[len(self._heard)]:
            self.over = True
            return
        self._heard.append(other)
        if len(self._heard) == len(self._own):
            self._then(self._heard)

    def know(self, mean_KK: Floats, count_KK: Floats, noise: float) -> None:
        """Set the statistics of this player's rewards.

        `mean_KK` and `count_KK` are mean and number of the rewards, indexed [own action, partner's
        action]. `noise` is the standard deviation of a reward around its mean.
        """
        self._mean_KK, self._count_KK, self._noise = mean_KK, count_KK, noise

    def _begin(self, own: Sequence[int], expected: Sequence[int] | None, then: _Phase) -> None:
        self._own, self._expected, self._then = tuple(own), expected, then
        self._heard: list[int] = []

    def _called(self, heard: list[int]) -> None:
        if tuple(heard) == CALL:
            self._draw()
        else:
            self._begin((0,) * len(ANSWER), ANSWER, self._ask)

    def _draw(self) -> None:
        if not self._coins:
            self.over = True  # Both drew the same bits, most likely from the same seed.
            return
        self._begin([self._coins.pop()], None, self._drawn)

    def _drawn(self, heard: list[int]) -> None:
        if heard[0] == self._own[0]:
            self._draw()
        else:
            self._leads = self._own[0] == 1
            self._ask(heard)

    def _ask(self, heard: list[int]) -> None:
        ready = all(self._count_KK[self._mine(cell)] >= self._needed for cell in self._cells)
        self._begin([int(ready)], None, self._asked)

    def _asked(self, heard: list[int]) -> None:
        if self._own[0] and heard[0]:
            self._begin(self._message(), None, self._exchanged)
        else:
            played = [self._mine(cell) for cell in self._cells]
            self._begin([own for own, _ in played], [other for _, other in played], self._ask)

    def _mine(self, cell: Cell) -> Cell:
        return cell if self._leads else (cell[1], cell[0])

    def _message(self) -> list[int]:
        if not self._again:  # The second exchange has the scale of the first.
            self._least = float(self._mean_KK.min())
            self._range = max(float(np.ptp(self._mean_KK)), 1e-12)
        share = [(self._mean_KK[self._mine(cell)] - self._least) / self._range
                 for cell in self._cells]  # fmt: skip
        top = 2**BITS - 1
        numbers = [(round(min(max(one, 0.0), 1.0) * top), BITS) for one in share]
        halvings = -2.0 * np.log2(max(self._noise / self._range, 1e-6))
        numbers.append((round(min(max(halvings, 0.0), 2**NOISE_BITS - 1)), NOISE_BITS))
        return [number >> bit & 1 for number, bits in numbers for bit in reversed(range(bits))]

    def _exchanged(self, heard: list[int]) -> None:
        messages = [list(self._own), heard] if self._leads else [heard, list(self._own)]
        noise = max(self._read(player, bits) for player, bits in enumerate(messages))
        leader_KK, follower_KK = self._sent
        agreement = fair_cycle(leader_KK, follower_KK)
        needed = min(int(np.ceil((noise / PRECISION) ** 2)), MOST_SAMPLES)
        error = DOUBT * noise / float(np.sqrt(self._needed))
        rivals = in_question(leader_KK, follower_KK, agreement, error)
        # A cycle of two joint actions is in doubt even if only one of the two may be better.
        unsure = any(set(agreement.cells) != {cell} for cell in rivals)
        if not self._again and needed > self._needed and unsure:
            rivals = sorted({*rivals, *agreement.cells})
            self._again, self._needed, self._cells = True, needed, rivals
            self._ask(heard)
        else:
            own, other = zip(*map(self._mine, agreement.cells), strict=True)
            self.agreed = own, other

    def _read(self, player: int, bits: list[int]) -> float:
        for place, cell in enumerate(self._cells):
            self._sent[player][cell] = _number(bits[place * BITS :][:BITS]) / (2**BITS - 1)
        return float(2.0 ** (-0.5 * _number(bits[-NOISE_BITS:])))


def in_question(
    leader_KK: Floats, follower_KK: Floats, agreement: Agreement, error: float
) -> list[Cell]:
    """Return the joint actions (leader's, follower's) that may be as good as the agreement.

    Both tables are mean rewards [leader's action, follower's]. A joint action is returned if its
    `product_of_gains`, with rewards `error` higher, is at least that of the agreement, with rewards
    `error` lower.
    """
    _, sure_2 = maximin(np.stack([leader_KK, follower_KK.T]))
    value_J2 = np.stack([leader_KK.ravel(), follower_KK.ravel()], axis=1) + error
    agreed_12 = np.array([[agreement.row, agreement.column]]) - error
    tables = sure_2, leader_KK, follower_KK
    possible_J = product_of_gains(value_J2, *tables) >= product_of_gains(agreed_12, *tables)
    return [divmod(int(cell), len(leader_KK)) for cell in np.flatnonzero(possible_J)]


def _number(bits: Sequence[int]) -> int:
    return int("".join(map(str, bits)), 2)
