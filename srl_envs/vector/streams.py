"""What `numpy.random.default_rng(seed).random(count)` gives, for many seeds in one go.

Making a generator takes longer than drawing a maze's worth of numbers from it, so NumPy's seeding
(SeedSequence, after O'Neill 2015) and its generator (PCG64: XSL-RR 128/64, O'Neill 2014) are
followed here on arrays, for seeds of one word and the first numbers of each stream.
"""

from __future__ import annotations

import numpy as np

_POOL = 4  # words of entropy that a SeedSequence keeps
_MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645  # of PCG64's linear congruential generator
_HIGH, _LOW = np.uint64(_MULTIPLIER >> 64), np.uint64(_MULTIPLIER & (1 << 64) - 1)
_LOW_LIMBS = np.uint64(int(_LOW) & 0xFFFFFFFF), np.uint64(int(_LOW) >> 32)
_HALF, _HALF_MASK = np.uint64(32), np.uint64(0xFFFFFFFF)

Words = tuple[np.ndarray, np.ndarray]
"""128-bit numbers as uint64 arrays: their upper and lower halves."""


class Streams:
    """The streams of many seeds, whole numbers from 0 to 2^32 - 1 as an array."""

    def __init__(self, seeds: np.ndarray) -> None:
        words = _seed_words(seeds.astype(np.uint32))
        initial, sequence = (words[0], words[1]), (words[2], words[3])
        one = np.uint64(1)
        high = (sequence[0] << one) | (sequence[1] >> np.uint64(63))
        self._increment = high, (sequence[1] << one) | one
        # From state 0 a step leads to the increment; then the initial state is added.
        self._state = _step(_sum(self._increment, initial), self._increment)

    def uniforms(self, count: int) -> np.ndarray:
        """The next `count` numbers in [0, 1) of each stream: float64 (streams, count)."""
        drawn = np.empty((count, len(self._state[0])))
        for row in drawn:
            self._state = high, low = _step(self._state, self._increment)
            turn, mixed = high >> np.uint64(58), high ^ low
            output = (mixed >> turn) | (mixed << (-turn.view(np.int64) & 63).view(np.uint64))
            np.multiply(output >> np.uint64(11), 2.0**-53, out=row)
        return drawn.T

    def keep(self, which: np.ndarray) -> None:
        """Go on with these streams only, in this order."""
        self._state = self._state[0][which], self._state[1][which]
        self._increment = self._increment[0][which], self._increment[1][which]


def _seed_words(seeds: np.ndarray) -> list[np.ndarray]:
    """The four uint64 words of SeedSequence(seed).generate_state, an array over seeds each."""
    constant = 0x43B0D7E5

    def hashed(value: np.ndarray) -> np.ndarray:
        nonlocal constant
        value = value ^ np.uint32(constant)
        constant = constant * 0x931E8875 & 0xFFFFFFFF
        value *= np.uint32(constant)
        value ^= value >> np.uint32(16)
        return value

    nothing = np.zeros_like(seeds)
    pool = [hashed(seeds if word == 0 else nothing) for word in range(_POOL)]
    for source in range(_POOL):
        for target in range(_POOL):
            if source != target:
                mixed = pool[target] * np.uint32(0xCA01F9DD)
                mixed -= hashed(pool[source]) * np.uint32(0x4973F715)
                mixed ^= mixed >> np.uint32(16)
                pool[target] = mixed
    words, constant = [], 0x8B51F9DD
    for word in range(2 * _POOL):
        value = pool[word % _POOL] ^ np.uint32(constant)
        constant = constant * 0x58F38DED & 0xFFFFFFFF
        value *= np.uint32(constant)
        value ^= value >> np.uint32(16)
        words.append(value.astype(np.uint64))
    return [words[i] | (words[i + 1] << _HALF) for i in range(0, 2 * _POOL, 2)]


def _sum(one: Words, other: Words) -> Words:
    low = one[1] + other[1]
    return one[0] + other[0] + (low < one[1]), low


def _step(state: Words, increment: Words) -> Words:
    """state * multiplier + increment, modulo 2^128."""
    high, low = state
    below, above = low & _HALF_MASK, low >> _HALF
    small, large = _LOW_LIMBS
    first, second, third = below * small, below * large, above * small
    carry = (first >> _HALF) + (second & _HALF_MASK) + (third & _HALF_MASK)
    upper = above * large + (second >> _HALF) + (third >> _HALF) + (carry >> _HALF)
    upper += high * _LOW + low * _HIGH
    return _sum((upper, low * _LOW), increment)
