"""Hostile answers in thousands: pieces thrown together by a generator, at next to no cost."""

from tests.srl_envs.hostile_answers import PIECES

JOINTS = ("", " ", "\n")


def hostile_text(rng, *words):
    """Up to seven pieces or `words`, in any order, and now and then some characters."""
    pieces = (*words, *PIECES)
    chosen = [pieces[place] for place in rng.integers(len(pieces), size=rng.integers(8))]
    if rng.random() < 0.1:
        chosen.append("".join(map(chr, rng.integers(1, 0x3000, size=20))))
    return JOINTS[rng.integers(3)].join(chosen)[:16_000]
