"""Debate: one agent argues for a motion, one against it, and a judge decides.

In every round, both agents speak and know the speeches of the rounds before. After the last round,
a judge scores each side from 0 to 1.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np

from srl_envs import loading
from srl_envs.errors import EnvConfigError, EnvError
from srl_envs.games.base import metadata_of
from srl_envs.games.maze_levels import SPLITS
from srl_envs.tasks.base import Problem, pick
from srl_envs.tasks.free_text_game import (
    RENDER_MODES,
    FreeTextGame,
    FreeTextView,
    Outcome,
    readable_text,
)
from srl_envs.text import ParseFailure, Samples
from srl_envs.validation import check_choice, entries_of, whole_number

PRO, CON, TIE = "pro", "con", "tie"
SIDES = (PRO, CON)
MARGIN = 0.02  # scores that are nearer to each other are a tie
SPEECH_LENGTH = 1200  # characters of a speech that count
ROUNDS = 3
HISTORY_LENGTH = 10_000  # characters of the speeches in an observation, without the oldest
SCORINGS = ("zero_sum", "quality")
SIDE_OF = {"pro_0": PRO, "con_0": CON}
SHIPPED = Path(__file__).with_name("debate_topics.jsonl")
LONGEST = 500  # characters of a motion
OPENINGS = {
    PRO: ("I am for the motion.", "This should be done."),
    CON: ("I am against the motion.", "This should not be done."),
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
_FOR = {PRO: "for", CON: "against"}


class JudgeError(EnvError):
    """Error of a judge that cannot return a Verdict."""


def other(side: str) -> str:
    """Return the opponent's side: "con" for "pro", and the reverse."""
    return CON if side == PRO else PRO


@dataclass(frozen=True)
class Speech:
    """Speech of one side in one round."""

    side: str
    """"pro" or "con"."""
    round: int
    """Number of the round, from 1."""
    text: str
    """One line of up to SPEECH_LENGTH characters; empty if the speech was unreadable."""


@dataclass(frozen=True)
class Debate:
    """Motion and all speeches so far, in order."""

    motion: str
    speeches: tuple[Speech, ...] = ()

    def by(self, side: str) -> list[Speech]:
        """Return the speeches of a side, "pro" or "con", in the order of the rounds."""
        return [speech for speech in self.speeches if speech.side == side]


@dataclass(frozen=True)
class Verdict:
    """Scores of both sides, from 0 to 1 by convention (not checked)."""

    pro: float
    con: float
    info: Mapping[str, Any] = field(default_factory=dict)
    """Plain data for the infos of both agents."""

    def score(self, side: str) -> float:
        """Return the score of a side, "pro" or "con"."""
        return self.pro if side == PRO else self.con

    @property
    def winner(self) -> str:
        """Winning side: "pro", "con", or "tie" if the scores differ by at most MARGIN."""
        if abs(self.pro - self.con) <= MARGIN:
            return TIE
        return PRO if self.pro > self.con else CON


class Judge(Protocol):
    """Judge of debates."""

    def judge(self, debate: Debate) -> Verdict:
        """Return the Verdict on a debate; may raise JudgeError."""
        ...


class DebateEnv(FreeTextGame):
    """Debate as a PettingZoo ParallelEnv of the agents pro_0 and con_0.

    Actions are speeches, of which the first SPEECH_LENGTH characters count. Both agents terminate
    after `debate_rounds` turns. A debate that `max_cycles` truncates earlier is judged on the
    speeches so far.

    Observation vector: rounds played / `debate_rounds`; 1 for pro_0; 1 for con_0; always 0;
    1 until `debate_rounds` rounds are over, then 0; speeches of the agent / `debate_rounds`.

    Infos: `motion`, `side`, `round` (1 after the reset, then the number of rounds played),
    `unreadable` (the reason, or None), and after a turn `words` (number in the speech).
    After the verdict also `score`, `opponent_score`, `winner` ("pro", "con" or "tie"),
    `success` (the agent won), and "judge_" + each key of `Verdict.info`.

    Reset option: `motion`, a text of up to LONGEST characters.

    Args:
        topics: Motions, or a JSONL file of motions; by default, the shipped motions.
        split: Split of the motions: "train", "test" or "any"; by default, "train" for the shipped
            motions and "any" for others.
        debate_rounds: Number of rounds, by default `max_cycles` if given, else ROUNDS.
        scoring: Reward of the last turn: "zero_sum" (own score less the opponent's, -1 to 1) or
            "quality" (own score, 0 to 1).
        judge: "rules" (RuleJudge), an object with a method `judge`, or 'module:function', which
            returns such an object and has no arguments.
        history: Number of past rounds in the observation, by default all.
            Beyond HISTORY_LENGTH characters, the oldest speeches are omitted.
        max_cycles: Largest number of turns, by default `debate_rounds`.
        obs_mode, render_mode: As in FreeTextGame.

    Raises:
        EnvConfigError: An argument is invalid, or no motion is of the split.
        UntrustedError: An untrusted record names code or a file.
        JudgeError: Raised by the last `step`, if the judge fails.
    """

    metadata: ClassVar[dict[str, Any]] = metadata_of("debate_v0", render_modes=RENDER_MODES)

    def __init__(
        self,
        *,
        topics: Sequence[str] | str | os.PathLike[str] | None = None,
        split: str | None = None,
        debate_rounds: int | None = None,
        scoring: str = "zero_sum",
        judge: Judge | str = "rules",
        history: int | None = None,
        max_cycles: int | None = None,
        obs_mode: str = "llm",
        render_mode: str | None = None,
    ) -> None:
        self.scoring: str = check_choice("scoring", scoring, SCORINGS)
        self.judge = _judge(judge)
        self.history = None if history is None else whole_number("history", history, low=0)
        self.topics = _topics(topics, split)
        self.debate = Debate(self.topics[0])
        self._verdict: Verdict | None = None
        if debate_rounds is None:
            debate_rounds = ROUNDS if max_cycles is None else max_cycles
        self.debate_rounds = whole_number("debate_rounds", debate_rounds, low=1)
        super().__init__(
            list(SIDE_OF),
            low=(0.0,) * 6,
            high=(1.0,) * 6,
            max_cycles=self.debate_rounds if max_cycles is None else max_cycles,
            obs_mode=obs_mode,
            render_mode=render_mode,
        )

    def make_view(self) -> FreeTextView:
        aim = "better than your opponent" if self.scoring == "zero_sum" else "as well as you can"
        rules = {
            agent: f"You are {side.upper()} in a debate: you speak {_FOR[side]} the motion, {aim}. "
            "Give reasons and examples, answer what your opponent said, and do not repeat "
            f"yourself. Up to {SPEECH_LENGTH} characters of a speech are heard."
            for agent, side in SIDE_OF.items()
        }
        return FreeTextView(rules)

    def begin(self, options: Mapping[str, Any]) -> None:
        drawn = pick(self.np_random, self.topics)
        chosen = options.get("motion")
        self.debate = Debate(drawn if chosen is None else _motion(chosen))
        self._verdict = None

    def first_info(self, agent: str) -> dict[str, Any]:
        motion, side = self.debate.motion, SIDE_OF[agent]
        return {"motion": motion, "side": side, "round": 1, "unreadable": None}

    def take(self, answers: Mapping[str, str], over: bool) -> dict[str, Outcome]:
        texts = {agent: readable_text(text) for agent, text in answers.items()}
        speeches = [Speech(SIDE_OF[a], self.played, _spoken(text)) for a, text in texts.items()]
        self.debate = Debate(self.debate.motion, (*self.debate.speeches, *speeches))
        if self.played >= self.debate_rounds or over:
            self._verdict = self.judge.judge(self.debate)
        return {agent: self._outcome(agent, text) for agent, text in texts.items()}

    def prompt(self, agent: str) -> str:
        lines = [f"Motion: {self.debate.motion}", *self._recalled()]
        if self.played < self.debate_rounds:
            number = f"Round {self.played + 1} of {self.debate_rounds}."
            lines.append(f"{number} Speak {_FOR[SIDE_OF[agent]]} the motion.")
        else:
            lines.append("The debate is over. What you write is not heard.")
        return "\n".join(lines)

    def numbers(self, agent: str) -> tuple[float, ...]:
        side, done = SIDE_OF[agent], self.played / self.debate_rounds
        return done, float(side == PRO), float(side == CON), 0.0, float(done < 1), done

    def sample_answers(self, agent: str, rng: np.random.Generator, count: int) -> Samples:
        return sample_speeches(rng, self.debate.motion, SIDE_OF[agent], count)

    def _recalled(self) -> list[str]:
        last_hidden = 0 if self.history is None else self.played - self.history
        lines: list[str] = []
        room = HISTORY_LENGTH
        for speech in reversed(self.debate.speeches):
            line = f"{speech.side.upper()} ({speech.round}): {speech.text or '(nothing)'}"
            room -= len(line)
            if speech.round <= last_hidden or room < 0:
                break
            lines.append(line)
        return lines[::-1]

    def _outcome(self, agent: str, text: str | ParseFailure) -> Outcome:
        side, verdict = SIDE_OF[agent], self._verdict
        info: dict[str, Any] = {
            "motion": self.debate.motion,
            "side": side,
            "round": self.played,
            "words": len(words_of(self.debate.by(side)[-1].text)),
            "unreadable": text.reason if isinstance(text, ParseFailure) else None,
        }
        if verdict is None:
            return Outcome(0.0, False, info)
        own, against = verdict.score(side), verdict.score(other(side))
        info |= {
            "score": own,
            "opponent_score": against,
            "winner": verdict.winner,
            "success": verdict.winner == side,
            **{f"judge_{name}": value for name, value in verdict.info.items()},
        }
        reward = own - against if self.scoring == "zero_sum" else own
        return Outcome(reward, self.played >= self.debate_rounds, info)


def sample_speeches(
    rng: np.random.Generator, motion: str, side: str, count: int
) -> tuple[str, ...]:
    """Return up to `count` different random stock speeches on a motion, for "pro" or "con"."""
    stems = content_words(motion)
    words = [word for word in words_of(motion) if len(word) >= SHORTEST and word[:STEM] in stems]
    stock = [*SENTENCES, *(ABOUT.format(word=word) for word in words[:2])]
    speeches: dict[str, None] = {}
    for _ in range(count):
        opening = [str(rng.choice(OPENINGS[side]))] if rng.random() < 0.5 else []
        more = rng.permutation(stock)[: int(rng.integers(1, 4))]
        speeches[" ".join([*opening, *map(str, more)])] = None
    return tuple(speeches)


def load_topics(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """Return the motions in a JSONL file, whose lines are strings or objects with "motion".

    Raises EnvConfigError if the file cannot be read, and for an invalid line, with its number.
    """
    return tuple(loading.read_rows(path, "topics", lambda row, number: _motion(row)))


def _motion(row: Any) -> str:
    motion = row.get("motion") if isinstance(row, Mapping) else row
    if not isinstance(motion, str) or not motion.strip() or len(motion) > LONGEST:
        raise EnvConfigError(
            f"motion must be a text of 1 to {LONGEST} characters, got {motion!r:.80}"
        )
    return " ".join(motion.split())


def _topics(
    topics: Sequence[str] | str | os.PathLike[str] | None, split: str | None
) -> tuple[str, ...]:
    default = "train" if topics is None else "any"
    chosen = check_choice("split", default if split is None else split, (*SPLITS, "any"))
    if topics is None:
        found = load_topics(SHIPPED)
    elif isinstance(topics, str | os.PathLike):
        found = load_topics(loading.place(topics, "topics"))
    else:
        found = tuple(_motion(motion) for motion in entries_of("topics", topics))
    kept = (each for each in found if chosen in ("any", Problem(each.casefold()).split))
    distinct = tuple(dict.fromkeys(kept))
    if not distinct:
        raise EnvConfigError(
            f"topics must contain a motion of the {chosen} split, got {len(found)} motions"
        )
    return distinct


def _spoken(text: str | ParseFailure) -> str:
    if isinstance(text, ParseFailure):
        return ""
    line = "".join(sign if sign.isprintable() else " " for sign in text)
    return " ".join(line.split())[:SPEECH_LENGTH].rstrip()


def _judge(judge: Judge | str) -> Judge:
    if isinstance(judge, str) and judge == "rules":
        return RuleJudge()
    made = loading.code(judge, "judge")() if isinstance(judge, str) and ":" in judge else judge
    if isinstance(made, str) or not callable(getattr(made, "judge", None)):
        raise EnvConfigError(
            "judge must be 'rules', 'module:function' or have a method judge(debate), got "
            f"{judge!r}"
        )
    return made


WEIGHTS: Mapping[str, float] = {
    "length": 0.15,
    "relevance": 0.25,
    "response": 0.20,
    "reasoning": 0.20,
    "evidence": 0.10,
    "structure": 0.10,
}
WORDS = (30, 150)
TAKEN_UP = 3
REASONED = 2
SENTENCE = (5, 40)
FULL_SENTENCES = 3
PROSE = (0.10, 0.25, 0.65, 0.85)  # shares of function words: 0 below, 1 from, 1 up to, 0 above
STEM = 5  # letters that identify a word
SHORTEST = 4  # letters of a content word

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
    """Deterministic judge that scores the form of speeches, not their truth.

    The score of a speech is the weighted mean of its features (see WEIGHTS), times two guards:

        score = fresh * prose * sum(weight * feature) / sum(weight)

    Reasons, evidence and structure count in sentences of 5 to 40 words only.
    Training against this judge rewards form alone; srl_agents.llm.judge reads content.
    """

    name = "rules"

    def judge(self, debate: Debate) -> Verdict:
        """Return a Verdict with each side's mean score of its speeches, 0 without speeches."""
        scores = {}
        for side in SIDES:
            marks = [score_speech(debate, speech)[0] for speech in debate.by(side)]
            scores[side] = sum(marks) / len(marks) if marks else 0.0
        return Verdict(scores[PRO], scores[CON])


def score_speech(debate: Debate, speech: Speech) -> tuple[float, dict[str, float]]:
    """Return RuleJudge's score of a speech, and a dict of its features and guards; all 0 to 1.

    The keys are those of WEIGHTS, "fresh" and "prose". "response" is missing if the speech has
    words and the opponent said nothing in earlier rounds.
    """
    words = words_of(speech.text)
    if not words:
        return 0.0, dict.fromkeys((*WEIGHTS, "fresh", "prose"), 0.0)
    heard = [earlier for earlier in debate.speeches if earlier.round < speech.round]
    opposing = [earlier.text for earlier in heard if earlier.side != speech.side and earlier.text]
    sentences = [
        (sentence, len(words_of(sentence))) for sentence in _END.split(speech.text.strip())
    ]
    proper = [text for text, size in sentences if SENTENCE[0] <= size <= SENTENCE[1]]
    motion, own = content_words(debate.motion), content_words(speech.text)
    found = {
        "length": min(1.0, len(words) / WORDS[0], WORDS[1] / len(words)),
        "relevance": min(1.0, len(own & motion) / max(1, min(TAKEN_UP, len(motion)))),
        "reasoning": min(1.0, _count_with(proper, REASONS) / REASONED),
        "evidence": float(_count_with(proper, EVIDENCE, numbers=True) > 0),
        "structure": min(1.0, len(proper) / FULL_SENTENCES),
    }
    if opposing:
        theirs = content_words(" ".join(opposing)) - motion
        found["response"] = min(1.0, len(own & theirs) / max(1, min(TAKEN_UP, len(theirs))))
    weight = sum(WEIGHTS[name] for name in found)
    mean = sum(WEIGHTS[name] * value for name, value in found.items()) / weight
    found["fresh"] = _fresh(words, [earlier.text for earlier in heard])
    found["prose"] = _prose(words)
    return found["fresh"] * found["prose"] * mean, found


def words_of(text: str) -> list[str]:
    """Return the list of the words and digit sequences of a text in lower case."""
    return [word.casefold() for word in _WORD.findall(text)]


def content_words(text: str) -> set[str]:
    """Return the first STEM letters of all words but FUNCTION_WORDS and short words."""
    words = [word for word in words_of(text) if len(word) >= SHORTEST]
    return {word[:STEM] for word in words if word not in FUNCTION_WORDS}


def _count_with(sentences: Sequence[str], phrases: Iterable[str], numbers: bool = False) -> int:
    count = 0
    for sentence in sentences:
        words = words_of(sentence)
        line = f" {' '.join(words)} "
        has_number = numbers and any(map(str.isdigit, words))
        count += has_number or any(f" {phrase} " in line for phrase in phrases)
    return count


def _fresh(words: Sequence[str], heard: Iterable[str]) -> float:
    """Return the share of word triples not yet used in `heard` or `words`; 1 without triples."""
    every = [*map(words_of, heard), words]
    groups = [list(zip(each, each[1:], each[2:], strict=False)) for each in every]
    known = {group for earlier in groups[:-1] for group in earlier}
    new = set(groups[-1]) - known
    return len(new) / len(groups[-1]) if groups[-1] else 1.0


def _prose(words: Sequence[str]) -> float:
    """Return 1 if 25 to 65% of words are function words, falling to 0 at 10 and 85%."""
    share = sum(word in FUNCTION_WORDS for word in words) / len(words)
    nothing, low, high, everything = PROSE
    if share < low:
        return max(0.0, (share - nothing) / (low - nothing))
    return min(1.0, max(0.0, (everything - share) / (everything - high)))


parallel_env = DebateEnv
