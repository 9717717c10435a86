"""Information in messages about the hearer's next action, over a permutation baseline.

The statistic is instantaneous coordination (Jaques et al. 2019, "Social Influence as Intrinsic
Motivation for Multi-Agent Deep RL", sec. 5; discussed as evidence of positive listening by Lowe et
al. 2019, "On the Pitfalls of Measuring Emergent Communication", sec. 3): the mutual information

    I(M; A) = sum of p(m, a) log2( p(m, a) / (p(m) p(a)) )

of what a speaker said and what the hearer did next, estimated from counts. Counts of few games find
information where there is none, and two players who each follow the clock coordinate without a
word; so the mean of the same estimate with the speaker's words of *other* games, at the same turns,
is taken off.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from srl_agents.episode import Episode
from srl_agents.evaluation.interactions.graph import Pair
from srl_envs.games.cheap_talk import spoken

PERMUTATIONS = 20
MOST_MESSAGES = 16
"""Different messages up to which they are told apart as a whole; of more, the one word counts that
says most about the action, chosen anew for every permutation."""
MOST_WORDS = 100
"""Words that are looked at, the most frequent."""

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]


class Heard(NamedTuple):
    """One turn of a hearer: what a speaker had last said ('' for nothing) and what it then did."""

    turn: int
    words: str
    action: int


def heard_in(episode: Episode) -> dict[Pair, tuple[Heard, ...]]:
    """(speaker, hearer) -> the hearer's turns, of speakers that ever reached that hearer."""
    said: dict[str, list[tuple[int, Mapping[str, str], int]]] = {}
    for number, turn in enumerate(episode.turns):
        for step in turn:
            action = step.decision.action
            if step.decision.asked and isinstance(action, int | np.integer):
                words = dict([*spoken(step.observation), *step.messages])
                said.setdefault(step.agent, []).append((number, words, int(action)))
    found: dict[Pair, tuple[Heard, ...]] = {}
    for hearer, turns in said.items():
        speakers = {speaker for _, words, _ in turns for speaker in words if speaker != hearer}
        for speaker in sorted(speakers & set(episode.seats)):
            found[speaker, hearer] = tuple(
                Heard(number, _plain(words.get(speaker, "")), action)
                for number, words, action in turns
            )
    return found


def _plain(message: str) -> str:
    """The message's words in small letters."""
    return " ".join(re.findall(r"\w+", message.casefold()))


def information(games: Sequence[Sequence[Heard]], rng: np.random.Generator) -> Floats:
    """Bits that each turn's words told of its action, less the mean of the baseline: in order of
    games and turns. Their mean is the estimate. Empty for fewer than two games, where there are no
    words of others.
    """
    if len(games) < 2:
        return np.zeros(0)
    messages = sorted({one.words for own in games for one in own})
    turns = {turn: place for place, turn in enumerate(sorted({h.turn for g in games for h in g}))}
    kinds = {action: k for k, action in enumerate(sorted({h.action for g in games for h in g}))}
    numbers = {message: number for number, message in enumerate(messages)}
    said, done = (np.full((len(games), len(turns)), ABSENT) for _ in range(2))
    for place, own in enumerate(games):
        for one in own:
            said[place, turns[one.turn]] = numbers[one.words]
            done[place, turns[one.turn]] = kinds[one.action]
    there = done != ABSENT
    classes = _readings(messages, np.bincount(said[there], minlength=len(messages)))
    bits = _pointwise(classes, said[there], done[there])
    baseline = []
    for _ in range(PERMUTATIONS):
        order = rng.permutation(len(games))
        others = np.empty_like(said)
        others[order] = said[np.roll(order, 1)]  # each game gets another's words
        both = there & (others != ABSENT)
        joint = _joint(classes, others[both], done[both])
        baseline.append(_information(joint).max(initial=0.0))
    return bits - float(np.mean(baseline))


ABSENT = -1
"""Stands where a game had no such turn."""


def _readings(messages: Sequence[str], counts: Numbers) -> Numbers:
    """Ways to read messages, (message, reading) -> class: as they are, or as one word each."""
    if len(messages) <= MOST_MESSAGES:
        return np.arange(len(messages))[:, None]
    words = [set(message.split()) for message in messages]
    total: dict[str, int] = {}
    for own, count in zip(words, counts.tolist(), strict=True):
        for word in own:
            total[word] = total.get(word, 0) + count
    frequent = sorted(total, key=lambda word: (-total[word], word))[:MOST_WORDS]
    return np.array([[int(word in own) for word in frequent] for own in words])


def _joint(classes: Numbers, said: Numbers, done: Numbers) -> Floats:
    """How often (reading, class, action) was."""
    read = classes[said]
    readings, kinds, actions = classes.shape[1], classes.max() + 1, done.max(initial=0) + 1
    flat = (np.arange(readings) * kinds + read) * actions + done[:, None]
    counts = np.bincount(flat.ravel(), minlength=readings * kinds * actions)
    joint: Floats = counts.reshape(readings, kinds, actions).astype(np.float64)
    return joint


def _information(joint: Floats) -> Floats:
    """Bits of mutual information under each reading."""
    total = np.maximum(joint.sum(axis=(1, 2)), 1.0)
    own = _n_log_n(joint).sum(axis=(1, 2)) + _n_log_n(total)
    own -= _n_log_n(joint.sum(axis=2)).sum(axis=1) + _n_log_n(joint.sum(axis=1)).sum(axis=1)
    bits: Floats = own / total
    return bits


def _n_log_n(counts: Floats) -> Floats:
    found: Floats = counts * np.log2(np.maximum(counts, 1.0))
    return found


def _pointwise(classes: Numbers, said: Numbers, done: Numbers) -> Floats:
    """log2 p(m, a) / (p(m) p(a)) of each turn, under the reading in which it is most in all."""
    joint = _joint(classes, said, done)
    best = int(_information(joint).argmax())
    counts, read = joint[best], classes[said, best]
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / counts.sum()
    bits: Floats = np.log2(counts[read, done] / expected[read, done])
    return bits
