"""Debate: one agent argues for a motion, one against it, and a judge decides.

In every round both speak and know the speeches of the rounds before. After the last round a judge
(srl_envs.tasks.debate.judging.Judge) scores each side from 0 to 1.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from srl_envs import loading
from srl_envs.errors import EnvConfigError
from srl_envs.games.base import metadata_of
from srl_envs.games.maze_levels import SPLITS
from srl_envs.tasks.base import Problem, pick
from srl_envs.tasks.debate.judging import (
    CON,
    PRO,
    SHORTEST,
    STEM,
    Debate,
    Judge,
    RuleJudge,
    Speech,
    Verdict,
    content_words,
    other,
    words_of,
)
from srl_envs.tasks.free_text_game import (
    RENDER_MODES,
    FreeTextGame,
    FreeTextView,
    Outcome,
    readable_text,
)
from srl_envs.text import ParseFailure, Samples
from srl_envs.validation import check_choice, entries_of, parallel_form, whole_number

SPEECH_LENGTH = 1200  # characters of a speech that count
ROUNDS = 3
TOLD_LENGTH = 10_000  # characters of the debate in an observation; the oldest speeches are left out
SCORINGS = ("zero_sum", "quality")
SIDE_OF = {"pro_0": PRO, "con_0": CON}
SHIPPED = Path(__file__).with_name("topics.jsonl")
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


class DebateEnv(FreeTextGame):
    """Debate as a PettingZoo ParallelEnv of the agents pro_0 and con_0.

    Actions are speeches, of which SPEECH_LENGTH characters count. A debate that `max_cycles` cuts
    short is judged on the speeches so far. Observation vector: turns so far / turns, pro, con (1
    for the side of the agent), 0, may speak now, speeches of the agent / rounds. Infos: `motion`,
    `side`, `round`, `words` (of the last speech), `unreadable` (the reason, or None). The last
    infos also have `score`, `opponent_score`, `winner`, `success` (the agent's side won), and the
    data of the verdict, with the prefix "judge_" for data of both sides.

    Args:
        topics: Motions, or a JSONL file of motions; by default, the shipped motions.
        split: Motions that are debated: "train", "test" or "any".
        debate_rounds: Number of rounds, by default ROUNDS or as many as fit into `max_cycles`.
        scoring: Reward of the last turn: "zero_sum" (own score less the opponent's, -1 to 1) or
            "quality" (own score, 0 to 1).
        judge: "rules" (RuleJudge), an object with a method `judge`, or 'module:function', which
            returns such an object.
        history: Number of past rounds in the observation, by default all.
        max_cycles: Largest number of turns.
        obs_mode: See FreeTextGame.
        render_mode: See FreeTextGame.

    Raises:
        EnvConfigError: An argument is invalid.
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
        named = options.get("motion")
        self.debate = Debate(drawn if named is None else _motion(named))
        self._verdict = None

    def first_info(self, agent: str) -> dict[str, Any]:
        motion, side = self.debate.motion, SIDE_OF[agent]
        return {"motion": motion, "side": side, "round": 1, "unreadable": None}

    def take(self, answers: Mapping[str, str], over: bool) -> dict[str, Outcome]:
        read = {agent: readable_text(text) for agent, text in answers.items()}
        speeches = [Speech(SIDE_OF[one], self.played, _spoken(text)) for one, text in read.items()]
        self.debate = Debate(self.debate.motion, (*self.debate.speeches, *speeches))
        if self.played >= self.debate_rounds or over:
            self._verdict = self.judge.judge(self.debate)
        return {agent: self._outcome(agent, text) for agent, text in read.items()}

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
        said = len(self.debate.by(side)) / self.debate_rounds
        return (done, float(side == PRO), float(side == CON), 0.0, float(done < 1), said)

    def sample_answers(self, agent: str, rng: np.random.Generator, count: int) -> Samples:
        return sample_speeches(rng, self.debate.motion, SIDE_OF[agent], count)

    def _recalled(self) -> list[str]:
        """Return the speeches in the observation, oldest first."""
        latest = self.debate.speeches[-1].round if self.debate.speeches else 0
        first = 0 if self.history is None else latest - self.history
        lines: list[str] = []
        room = TOLD_LENGTH
        for speech in reversed(self.debate.speeches):
            line = f"{speech.side.upper()} ({speech.round}): {speech.text or '(nothing)'}"
            room -= len(line)
            if speech.round <= first or room < 0:
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
            **verdict.of_side.get(side, {}),
        }
        reward = own - against if self.scoring == "zero_sum" else own
        return Outcome(reward, self.played >= self.debate_rounds, info)


def sample_speeches(
    rng: np.random.Generator, motion: str, side: str, count: int
) -> tuple[str, ...]:
    """Return up to `count` different speeches: an opening or none, and one to three sentences."""
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
    """Load motions from a JSONL file: a text, or an object with "motion" or "topic", on each line.

    Raises:
        EnvConfigError: A line is invalid; the message contains its number.
    """
    return tuple(loading.read_rows(path, "topics", lambda said, number: _motion(said)))


def split_of(motion: str) -> str:
    """Return "train", or for one motion in five "test"."""
    return Problem(motion.casefold()).split


def _motion(said: Any) -> str:
    """Return a motion as one line; raise EnvConfigError if it is none."""
    motion = said.get("motion", said.get("topic")) if isinstance(said, Mapping) else said
    if not isinstance(motion, str) or not motion.strip() or len(motion) > LONGEST:
        raise EnvConfigError(
            f"a motion is a text of up to {LONGEST} characters, got {motion!r:.80}"
        )
    return " ".join(motion.split())


def _topics(
    topics: Sequence[str] | str | os.PathLike[str] | None, split: str | None
) -> tuple[str, ...]:
    """Return the motions of the split, by default all of given topics."""
    default = "train" if topics is None else "any"
    wanted = check_choice("split", default if split is None else split, (*SPLITS, "any"))
    if topics is None:
        found = load_topics(SHIPPED)
    elif isinstance(topics, str | os.PathLike):
        found = load_topics(loading.place(topics, "topics"))
    else:
        found = tuple(_motion(motion) for motion in entries_of("topics", topics))
    kept = (motion for motion in found if wanted in ("any", split_of(motion)))
    distinct = tuple(dict.fromkeys(kept))
    if not distinct:
        raise EnvConfigError(
            f"topics must contain a motion of the {wanted} split, got {len(found)}"
        )
    return distinct


def _spoken(text: str | ParseFailure) -> str:
    """Return a speech as one printable line."""
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


parallel_env = parallel_form(DebateEnv)
