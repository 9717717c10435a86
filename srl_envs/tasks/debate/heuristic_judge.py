"""Heuristic judge of debates: scores the form of a speech, not its truth.

A speech's score is the weighted mean of WEIGHTS' features, times the guards:

    score = fresh * prose * sum(weight * feature) / sum(weight)

- length: 1 within WORDS words, less in proportion for fewer or more
- relevance: different words of the motion that it takes up, of TAKEN_UP
- response: different words of the opponent's earlier speeches that it takes up, of TAKEN_UP; left
  out while the opponent has not been heard
- reasoning: sentences that give a reason (REASONS), of REASONED
- evidence: a sentence with an example, a source or a number (EVIDENCE)
- structure: sentences of SENTENCE words, of SENTENCES

A word counts once however often it is said, a sentence with three reasons once, and a sentence
that is too short or too long to be one not at all. The guards make it useless to fill a speech with
what counts:

- fresh: the share of its groups of three words that stand neither earlier in the same speech nor in
  any speech heard before, one's own or the opponent's
- prose: 1 where the share of function words (the, of, is, ...) is as in written language (PROSE),
  falling to 0 outside it: lists of keywords have hardly any. The share of words whose letters no
  English word has (ODD) lowers it as well

A side's score is the mean over its speeches; one that could not be read scores 0.

Nonsense of real or pronounceable words in sound sentences passes all of this. Training against this
judge therefore rewards form alone; a language model as judge (srl_agents.llm.judge) reads content.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from srl_envs.tasks.debate.judging import CON, PRO, SIDES, Debate, Speech, Verdict

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
ODD = (1, 0.10, 0.30)  # a word that is free; 1 up to this share of further odd words, 0 from
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
# No vowel, clusters of consonants or vowels, tripled letters, and pairs that English hardly has.
_ODD_WORD = re.compile(
    r"^[^aeiouy]+$|^[^aeiouy]{4}|[^aeiouy]{5}|[aeiou]{4}|(.)\1\1|[jqv]$"
    r"|b[fgkqwxz]|c[bfgjmnpvwx]|d[kqxz]|f[bcdghjkmnpqvwxz]|g[cjkqvxz]|h[cfgjkqvxz]|j[^aeiou]"
    r"|k[cjqvxz]|l[jqxz]|m[cgjkqwxz]|p[jqvxz]|q[^u]|r[xz]|s[jvxz]|t[jkqvx]|v[^aeiouyr]"
    r"|w[gjqvxz]|x[bdfgjklmnrsvwxz]|y[jkqvy]|z[bcdfgjkmnpqrstvwx]"
)
_END = re.compile(r"(?<=[.!?])\s+")


class RuleJudge:
    """Judges by this module's rules; the same debate always gets the same verdict."""

    name = "rules"

    def judge(self, debate: Debate) -> Verdict:
        """Each side's mean score, with its mean features."""
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
    """(score, its features and guards by name); "response" is missing where none was possible."""
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
    """The words and numbers, in lower case."""
    return [word.casefold() for word in _WORD.findall(text)]


def content_words(text: str) -> set[str]:
    """The stems of the words that carry meaning."""
    return {
        word[:STEM]
        for word in words_of(text)
        if len(word) >= SHORTEST and word not in FUNCTION_WORDS
    }


def _holding(sentences: Sequence[str], phrases: Iterable[str], numbers: bool = False) -> int:
    """How many of the sentences hold one of the phrases, or a number."""
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
        written = max(0.0, (share - nothing) / (low - nothing))
    else:
        written = min(1.0, max(0.0, (everything - share) / (everything - high)))
    return written * _spelled(words)


def _spelled(words: Sequence[str]) -> float:
    """Return 1 for words with the letters of English words, down to 0 for random letters."""
    judged = {w for w in words if len(w) >= SHORTEST and w.isascii() and w.isalpha()}
    judged -= FUNCTION_WORDS
    free, few, many = ODD
    odd = sum(_ODD_WORD.search(word) is not None for word in judged) - free
    share = odd / max(1, len(judged))
    return min(1.0, max(0.0, (many - share) / (many - few)))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
