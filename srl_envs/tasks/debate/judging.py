"""Judges of debates: records, the Judge protocol, and RuleJudge.

RuleJudge scores the form of a speech, not its truth. The score of a speech is the weighted mean of
WEIGHTS' features, times two guards:

    score = fresh * prose * sum(weight * feature) / sum(weight)

- length: 1 within WORDS words, proportionally less for fewer or more
- relevance: distinct words of the motion in the speech, of TAKEN_UP
- response: distinct words of the opponent's earlier speeches, of TAKEN_UP; left out before the
  first of them
- reasoning: sentences with a reason (REASONS), of REASONED
- evidence: a sentence with an example, a source or a number (EVIDENCE)
- structure: sentences of SENTENCE words, of SENTENCES
- fresh: share of the groups of three words that occur neither earlier in the speech nor in any
  earlier speech
- prose: 1 if the share of function words (the, of, is, ...) is as in written language (PROSE), down
  to 0 for lists of keywords

Words and sentences count once, so repetition has no effect. The score of a side is the mean over
its speeches; an unreadable speech has score 0. Nonsense in sound sentences passes these rules:
training against this judge rewards form alone. A language model as judge (srl_agents.llm.judge)
reads content.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol

from srl_envs.errors import EnvError

PRO, CON, TIE = "pro", "con", "tie"
SIDES = (PRO, CON)
MARGIN = 0.02  # scores that are nearer to each other are a tie


class JudgeError(EnvError):
    """The debate cannot be judged; its episode has failed."""


def other(side: str) -> str:
    """Return the side of the opponent."""
    return CON if side == PRO else PRO


@dataclass(frozen=True)
class Speech:
    """Speech of one side in one round."""

    side: str
    round: int
    """Number of the round, from 1."""
    text: str
    """One line; empty if the speech was unreadable."""


@dataclass(frozen=True)
class Debate:
    """Motion, and the speeches so far, in order."""

    motion: str
    speeches: tuple[Speech, ...] = ()

    def by(self, side: str) -> list[Speech]:
        """Return the speeches of a side."""
        return [speech for speech in self.speeches if speech.side == side]

    def heard_before(self, speech: Speech) -> list[Speech]:
        """Return the speeches of earlier rounds, those of the speaker included."""
        return [said for said in self.speeches if said.round < speech.round]


@dataclass(frozen=True)
class Verdict:
    """Score of each side, 0 to 1, with plain data on the judgment."""

    pro: float
    con: float
    info: Mapping[str, Any] = field(default_factory=dict)
    of_side: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Side -> plain data of that side, such as its features."""

    def score(self, side: str) -> float:
        """Return the score of a side."""
        return self.pro if side == PRO else self.con

    @property
    def winner(self) -> str:
        """ "pro", "con", or "tie" for scores within MARGIN."""
        if abs(self.pro - self.con) <= MARGIN:
            return TIE
        return PRO if self.pro > self.con else CON


class Judge(Protocol):
    """Judge of debates."""

    def judge(self, debate: Debate) -> Verdict:
        """Return the verdict, deterministic if possible; raise JudgeError if there is none."""
        ...


WEIGHTS: Mapping[str, float] = MappingProxyType(
    {
        "length": 0.15,
        "relevance": 0.25,
        "response": 0.20,
        "reasoning": 0.20,
        "evidence": 0.10,
        "structure": 0.10,
    }
)
WORDS = (30, 150)
TAKEN_UP = 3
REASONED = 2
SENTENCE = (5, 40)
SENTENCES = 3
PROSE = (0.10, 0.25, 0.65, 0.85)  # 0 below, 1 from, 1 up to, 0 above
STEM = 5  # letters in which two words must agree to be the same
SHORTEST = 4  # letters of a word that can be taken up

REASONS = (
    "because", "since", "therefore", "thus", "hence", "consequently", "as a result", "so that",
    "which means", "it follows", "for this reason", "leads to", "although", "however", "whereas",
)  # fmt: skip
EVIDENCE = (
    "for example", "for instance", "according to", "such as", "studies", "research", "evidence",
    "statistics", "history shows", "experience shows",
)  # fmt: skip
FUNCTION_WORDS = frozenset(
    " ".join(
        (
            "a about after all also although an and any are as at be because been before both",
            "but by can could did do does down each either even every few for from had has",
            "have he her here hers him his how however i if in into is it its just many may",
            "me might more most much must my neither no nor not of off on once only or other",
            "our out over own same shall she should since so some such than that the their",
            "them then there therefore these they this those though through thus to too under",
            "until up upon us very was we were what when where whereas whether which while",
            "who whom whose why will with without would yet you your",
        )
    ).split()
)

_WORD = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)?|\d+")
_END = re.compile(r"(?<=[.!?])\s+")


class RuleJudge:
    """Judge by the rules of this module, deterministic."""

    name = "rules"

    def judge(self, debate: Debate) -> Verdict:
        """Return the mean scores of the sides, with their mean features."""
        scores: dict[str, float] = {}
        features: dict[str, dict[str, float]] = {}
        for side in SIDES:
            marks = [score_speech(debate, speech) for speech in debate.by(side)]
            scores[side] = _mean([score for score, _ in marks])
            names = [*WEIGHTS, "fresh", "prose"]
            features[side] = {
                name: round(_mean([found[name] for _, found in marks if name in found]), 4)
                for name in names
            }
        return Verdict(
            scores[PRO],
            scores[CON],
            of_side={side: {"features": found} for side, found in features.items()},
        )


def score_speech(debate: Debate, speech: Speech) -> tuple[float, dict[str, float]]:
    """Return the score, and the features and guards by name."""
    words = words_of(speech.text)
    if not words:
        return 0.0, dict.fromkeys((*WEIGHTS, "fresh", "prose"), 0.0)
    heard = debate.heard_before(speech)
    told = [said.text for said in heard if said.side != speech.side and said.text]
    sentences = [
        (sentence, len(words_of(sentence))) for sentence in _END.split(speech.text.strip())
    ]
    proper = [text for text, size in sentences if SENTENCE[0] <= size <= SENTENCE[1]]
    motion, own = content_words(debate.motion), content_words(speech.text)
    found = {
        "length": min(1.0, len(words) / WORDS[0], WORDS[1] / len(words)),
        "relevance": min(1.0, len(own & motion) / max(1, min(TAKEN_UP, len(motion)))),
        "reasoning": min(1.0, _holding(proper, REASONS) / REASONED),
        "evidence": float(_holding(proper, EVIDENCE, numbers=True) > 0),
        "structure": min(1.0, len(proper) / SENTENCES),
    }
    if told:
        theirs = content_words(" ".join(told)) - motion
        found["response"] = min(1.0, len(own & theirs) / max(1, min(TAKEN_UP, len(theirs))))
    weight = sum(WEIGHTS[name] for name in found)
    mean = sum(WEIGHTS[name] * value for name, value in found.items()) / weight
    found["fresh"] = _fresh(words, [said.text for said in heard])
    found["prose"] = _prose(words)
    return found["fresh"] * found["prose"] * mean, found


def words_of(text: str) -> list[str]:
    """Return the words and numbers in lower case."""
    return [word.casefold() for word in _WORD.findall(text)]


def content_words(text: str) -> set[str]:
    """Return the stems of the words that are no function words."""
    return {
        word[:STEM]
        for word in words_of(text)
        if len(word) >= SHORTEST and word not in FUNCTION_WORDS
    }


def _holding(sentences: Sequence[str], phrases: Iterable[str], numbers: bool = False) -> int:
    """Count the sentences with one of the phrases, or a number."""
    forms = [f" {phrase} " for phrase in phrases]
    held = 0
    for sentence in sentences:
        words = words_of(sentence)
        line = f" {' '.join(words)} "
        held += any(form in line for form in forms) or (numbers and any(map(str.isdigit, words)))
    return held


def _fresh(words: Sequence[str], heard: Iterable[str]) -> float:
    known = {group for text in heard for group in _threes(words_of(text))}
    groups = _threes(words)
    if not groups:
        return 1.0
    new = 0
    for group in groups:
        new += group not in known
        known.add(group)
    return new / len(groups)


def _threes(words: Sequence[str]) -> list[tuple[str, ...]]:
    return list(zip(words, words[1:], words[2:], strict=False))


def _prose(words: Sequence[str]) -> float:
    share = sum(word in FUNCTION_WORDS for word in words) / len(words)
    nothing, low, high, everything = PROSE
    if share < low:
        return max(0.0, (share - nothing) / (low - nothing))
    return min(1.0, max(0.0, (everything - share) / (everything - high)))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
