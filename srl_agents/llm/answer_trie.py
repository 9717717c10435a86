"""Trie of legal answers: the tokens that may come next in constrained decoding."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, eq=False)
class AnswerTrie:
    """The tokens that may come next, and what may follow each; a leaf allows nothing more."""

    children: Mapping[int, AnswerTrie]
    """Next token -> what may follow it, in the order of the answers."""
    allowed: tuple[int, ...]
    """The keys of `children`."""
    answers: int
    """How many legal answers go on from here."""
    longest: int
    """Tokens to the end of the longest of them, its end of turn included."""


def answer_trie(answers: Sequence[Sequence[int]], end_of_turn: int) -> AnswerTrie:
    """The trie of the answers' token ids, each closed by `end_of_turn`.

    An answer may take several tokens, and one answer may be the beginning of another: the end of
    turn is then one of the choices. Raises ValueError where there is no answer, an answer has no
    tokens, or two answers are the same tokens.
    """
    if not answers:
        raise ValueError("constrained choice needs at least one legal answer; got none")
    sequences = [tuple(answer) for answer in answers]
    for index, sequence in enumerate(sequences):
        if not sequence:
            raise ValueError(f"legal answer number {index} has no tokens; answers need words")
        if sequences.index(sequence) != index:
            raise ValueError(f"legal answer number {index} repeats the tokens {list(sequence)}")
    return _grow([(*sequence, end_of_turn) for sequence in sequences])


known_trie = functools.lru_cache(maxsize=1024)(answer_trie)
"""`answer_trie` of tuples, remembered: agents choose among the same answers turn after turn."""


def _grow(tails: Sequence[tuple[int, ...]]) -> AnswerTrie:
    by_token: dict[int, list[tuple[int, ...]]] = {}
    for tail in tails:
        if tail:
            by_token.setdefault(tail[0], []).append(tail[1:])
    return AnswerTrie(
        children={token: _grow(rest) for token, rest in by_token.items()},
        allowed=tuple(by_token),
        answers=len(tails),
        longest=max(len(tail) for tail in tails),
    )
