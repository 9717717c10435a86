"""Sample speeches of the right form, for warm starts."""

from __future__ import annotations

import numpy as np

from srl_envs.tasks.debate.heuristic_judge import SHORTEST, STEM, content_words, words_of
from srl_envs.tasks.debate.judging import PRO

OPENINGS = {
    PRO: ("I am for the motion.", "This should be done."),
    "con": ("I am against the motion.", "This should not be done."),
}
SENTENCES = (
    "It matters to all of us because it changes how we live.",
    "For example, many towns have seen it at work.",
    "However, what the other side said is not the whole of it.",
    "Therefore it is the better choice for most people.",
    "It costs more than it brings.",
    "Some people like it, and some do not.",
)
ABOUT = "We are talking about {word}."


def sample_speeches(
    rng: np.random.Generator, motion: str, side: str, count: int
) -> tuple[str, ...]:
    """Up to `count` different speeches: an opening or none, and up to three sentences."""
    stems = content_words(motion)
    words = [word for word in words_of(motion) if len(word) >= SHORTEST and word[:STEM] in stems]
    stock = [*SENTENCES, *(ABOUT.format(word=word) for word in words[:2])]
    speeches: dict[str, None] = {}
    for _ in range(count):
        opening = [str(rng.choice(OPENINGS[side]))] if rng.random() < 0.5 else []
        more = rng.permutation(stock)[: int(rng.integers(1, 4))]
        speeches[" ".join([*opening, *map(str, more)])] = None
    return tuple(speeches)
