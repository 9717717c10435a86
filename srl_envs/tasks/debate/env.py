"""Debate: one agent argues for a motion, one against it, and a judge decides.

In every round both speak, having heard the rounds before ("simultaneous"), or first one and then
the other ("alternating": two turns to a round; what the listening agent writes is not heard). After
the last round a judge (srl_envs.tasks.debate.judging.Judge) gives each side a score from 0 to 1.

A judge agent may sit by. In every turn it says who is ahead so far, and it has one more turn than
the debaters; each of its votes earns 1 / turns where it agrees with the judge, so that it can be
trained on the judge's verdicts.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from srl_envs import loading
from srl_envs.errors import EnvConfigError
from srl_envs.games.base import metadata_of
from srl_envs.games.maze_levels import SPLITS
from srl_envs.tasks.debate.heuristic_judge import RuleJudge, words_of
from srl_envs.tasks.debate.judging import (
    CON,
    EVEN,
    PRO,
    SIDES,
    TIE,
    VERDICTS,
    Debate,
    Judge,
    Speech,
    Verdict,
    other,
)  # fmt: skip
from srl_envs.tasks.debate.sample_speeches import sample_speeches
from srl_envs.tasks.debate.topics import SHIPPED, checked_all, load_topics, split_of
from srl_envs.tasks.free_text_game import (
    RENDER_MODES,
    FreeTextGame,
    FreeTextView,
    Outcome,
    readable_text,
)
from srl_envs.tasks.problem import pick
from srl_envs.text import ParseFailure, Samples, parse_choice
from srl_envs.validation import check_choice, parallel_form, whole_number

SPEECH_LENGTH = 1200  # characters that are heard of a speech
ROUNDS = 3
TOLD_LENGTH = 10_000  # characters of the debate that are told; the oldest speeches go first
ORDERS = ("simultaneous", "alternating")
SCORINGS = ("zero_sum", "quality")
JUDGE_ROLES = ("none", "observes", "decides")
AGENTS = {PRO: "pro_0", CON: "con_0", "judge": "judge_0"}
SIDE_OF = {agent: side for side, agent in AGENTS.items()}


class DebateEnv(FreeTextGame):
    """A debate as a PettingZoo ParallelEnv of the agents pro_0, con_0 and, where wanted, judge_0.

    Actions are speeches, as written; SPEECH_LENGTH characters of each are heard. At its last turn
    a debater earns, by `scoring`:

    - "zero_sum": its score less the opponent's, -1 to 1;
    - "quality": its own score, 0 to 1.

    `topics` are motions, or a JSONL file of them (srl_envs.tasks.debate.topics); the shipped ones
    where not given, of which `split` ("train", "test" or "any") are debated. `judge` is "rules"
    (srl_envs.tasks.debate.heuristic_judge), an object with a method `judge`, or 'module:function',
    which gives one. `judge_agent` is "none", "observes" or "decides": its last vote then makes the
    scores (1 and 0, or 0.5 each for a tie or a vote that cannot be read), and the debaters wait
    for it, one turn in which nothing they write counts. `history` is how many past rounds are
    told, all by default.

    Observation: turns so far / turns, pro, con, judge (1 for the agent's role), may speak now, its
    speeches / rounds. Infos: `motion`, `side`, `round`, `words` (heard of the last speech),
    `unreadable` (why the text was not read, or None), and at the end `score`, `opponent_score`,
    `winner`, `success` (the agent's side won), `features` by the rule judge, and what the judge
    says of its verdict, with "judge_" before. A judge agent's are `vote`, `reference`, `success`
    (they agree) and `agreement` (share of its votes so far that did).

    There are ROUNDS `debate_rounds` where not given, or as many as `max_cycles` has turns for; a
    debate that `max_cycles` cuts short is judged on what was said. Raises EnvConfigError for
    wrong arguments.
    """

    metadata: ClassVar[dict[str, Any]] = metadata_of("debate_v0", render_modes=RENDER_MODES)

    def __init__(
        self,
        *,
        topics: Sequence[str] | str | os.PathLike[str] | None = None,
        split: str | None = None,
        debate_rounds: int | None = None,
        order: str = "simultaneous",
        scoring: str = "zero_sum",
        judge: Judge | str = "rules",
        judge_agent: str = "none",
        history: int | None = None,
        max_cycles: int | None = None,
        obs_mode: str = "llm",
        render_mode: str | None = None,
    ) -> None:
        self.order: str = check_choice("order", order, ORDERS)
        self.scoring: str = check_choice("scoring", scoring, SCORINGS)
        self.judge_agent: str = check_choice("judge_agent", judge_agent, JUDGE_ROLES)
        self.judge = _judge(judge)
        self.history = None if history is None else whole_number("history", history, low=0)
        self.topics = _topics(topics, split)
        self.debate = Debate(self.topics[0])
        self._votes: list[tuple[str | None, str]] = []
        self._verdict: Verdict | None = None
        with_judge = self.judge_agent != "none"
        turns_a_round = 2 if self.order == "alternating" else 1
        if debate_rounds is None and max_cycles is not None:
            fitting = whole_number("max_cycles", max_cycles, low=1) - with_judge
            debate_rounds = max(1, fitting // turns_a_round)
        wanted = ROUNDS if debate_rounds is None else debate_rounds
        self.debate_rounds = whole_number("debate_rounds", wanted, low=1)
        self._speaking = self.debate_rounds * turns_a_round
        self.turns = self._speaking + with_judge
        agents = [AGENTS[PRO], AGENTS[CON], *([AGENTS["judge"]] if with_judge else [])]
        super().__init__(
            agents,
            low=(0.0,) * 6,
            high=(1.0,) * 6,
            max_cycles=self.turns if max_cycles is None else max_cycles,
            obs_mode=obs_mode,
            render_mode=render_mode,
        )

    # What FreeTextGame asks of a game.

    def make_view(self) -> DebateView:
        """The view."""
        return DebateView("", decides=self.judge_agent == "decides", scoring=self.scoring)

    def begin(self, options: Mapping[str, Any]) -> None:
        """Draw the motion, or take the one that `options` names under "motion"."""
        drawn = pick(self.np_random, self.topics)
        named = options.get("motion")
        motion = drawn if named is None else checked_all([named])[0]
        self.debate = Debate(motion, simultaneous=self.order == "simultaneous")
        self._votes, self._verdict = [], None

    def first_info(self, agent: str) -> dict[str, Any]:
        """The info of an agent that has said nothing."""
        side = SIDE_OF[agent]
        return {"motion": self.debate.motion, "side": side, "round": 1, "unreadable": None}

    def take(self, answers: Mapping[str, str], over: bool) -> dict[str, Outcome]:
        """Hear the speeches, count the vote, and judge when it is time to."""
        turn, before = self.played - 1, self.debate
        read = {agent: readable_text(text) for agent, text in answers.items()}
        speaking = [agent for agent in answers if self._may_speak(agent, turn)]
        speeches = tuple(
            Speech(SIDE_OF[agent], self._round(turn), _spoken(read[agent])) for agent in speaking
        )
        self.debate = Debate(before.motion, before.speeches + speeches, before.simultaneous)
        ended = over or self.played >= self.turns
        outcomes = {}
        if AGENTS["judge"] in answers:
            outcomes[AGENTS["judge"]] = self._voted(read[AGENTS["judge"]], before, ended)
        decided_later = self.judge_agent == "decides" and not ended
        if (self.played >= self._speaking and not decided_later) or over:
            self._verdict = self._final()
        for agent, text in read.items():
            if SIDE_OF[agent] in SIDES:
                outcomes[agent] = self._debated(agent, text, turn, agent in speaking)
        return outcomes

    def prompt(self, agent: str) -> str:
        """The motion, the agent's side, the debate so far, and what is to be done now."""
        side = SIDE_OF[agent]
        lines = [f"Motion: {self.debate.motion}", *self._recalled()]
        if side not in SIDES:
            lines.append(f"Who has argued better so far? {_CHOICE}")
        elif self._may_speak(agent, self.played):
            number = f"Round {self._round(self.played)} of {self.debate_rounds}."
            lines.append(f"{number} Speak {_FOR[side]} the motion.")
        elif self.played < self._speaking:
            lines.append(f"Listen: {other(side).upper()} speaks. What you write is not heard.")
        else:
            lines.append("The debate is over. What you write is not heard.")
        return "\n".join(lines)

    def numbers(self, agent: str) -> tuple[float, ...]:
        """See the class."""
        side = SIDE_OF[agent]
        said = len(self.debate.by(side)) / self.debate_rounds
        roles = (float(side == role) for role in (PRO, CON, "judge"))
        may = float(self._may_speak(agent, self.played))
        return (min(1.0, self.played / self.turns), *roles, may, said)

    def sample_answers(self, agent: str, rng: np.random.Generator, count: int) -> Samples:
        """Speeches of stock sentences, and votes: for warm starts."""
        side = SIDE_OF[agent]
        if side not in SIDES:
            return VERDICTS
        return sample_speeches(rng, self.debate.motion, side, count)

    # The rules.

    def _may_speak(self, agent: str, turn: int) -> bool:
        side = SIDE_OF[agent]
        if side not in SIDES or turn >= self._speaking:
            return False
        return self.order == "simultaneous" or SIDES[turn % 2] == side

    def _round(self, turn: int) -> int:
        played = turn // 2 if self.order == "alternating" else turn
        return min(played, self.debate_rounds - 1) + 1

    def _recalled(self) -> list[str]:
        """The speeches that are told, oldest first."""
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

    def _final(self) -> Verdict:
        if self.judge_agent == "decides":
            vote = self._votes[-1][0] if self._votes else None
            pro = {PRO: 1.0, CON: 0.0}.get(vote or TIE, 0.5)
            return Verdict(pro, 1.0 - pro)
        return self._judged(self.debate)

    def _judged(self, debate: Debate) -> Verdict:
        return self.judge.judge(debate) if debate.speeches else EVEN

    def _voted(self, text: str | ParseFailure, seen: Debate, ended: bool) -> Outcome:
        """A vote on the debate as the judge agent was told it."""
        choice = text if isinstance(text, ParseFailure) else parse_choice(text, VERDICTS)
        vote = None if isinstance(choice, ParseFailure) else VERDICTS[choice]
        reference = self._judged(seen).winner
        self._votes.append((vote, reference))
        agreed = [cast == wanted for cast, wanted in self._votes]
        info = {
            "motion": seen.motion,
            "side": "judge",
            "round": self._round(self.played - 1),
            "unreadable": choice.reason if isinstance(choice, ParseFailure) else None,
            "vote": vote,
            "reference": reference,
            "success": agreed[-1],
            "agreement": sum(agreed) / len(agreed),
        }
        turns = min(self.turns, self.rounds)
        return Outcome(agreed[-1] / turns, ended and self.played >= self.turns, info)

    def _debated(self, agent: str, text: str | ParseFailure, turn: int, spoke: bool) -> Outcome:
        side, verdict = SIDE_OF[agent], self._verdict
        words = len(words_of(self.debate.by(side)[-1].text)) if spoke else 0
        info: dict[str, Any] = {
            "motion": self.debate.motion,
            "side": side,
            "round": self._round(turn),
            "words": words,
            "unreadable": text.reason if spoke and isinstance(text, ParseFailure) else None,
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
        return Outcome(reward, self.played >= self._speaking, info)


_CHOICE = "Write one word: pro, con or tie."
_FOR = {PRO: "for", CON: "against"}


@dataclass(frozen=True)
class DebateView(FreeTextView):
    """Text view of a debate."""

    decides: bool = field(default=False, kw_only=True)
    scoring: str = field(default="zero_sum", kw_only=True)

    def rules(self, agent: str) -> str:
        """The agent's role."""
        side = SIDE_OF[agent]
        if side not in SIDES:
            weight = " Your last vote decides." if self.decides else ""
            return (
                "You judge a debate: PRO speaks for a motion, CON against it. Look at how well "
                f"each argues, not at whom you agree with.{weight} {_CHOICE}"
            )
        aim = "better than your opponent" if self.scoring == "zero_sum" else "as well as you can"
        return (
            f"You are {side.upper()} in a debate: you speak {_FOR[side]} the motion, {aim}. Give "
            "reasons and examples, answer what your opponent said, and do not repeat yourself. "
            f"Up to {SPEECH_LENGTH} characters of a speech are heard."
        )

    def parse(self, agent: str, answer: str) -> str | ParseFailure:
        """The whole text; a judge's must name a verdict."""
        text = readable_text(answer)
        if isinstance(text, ParseFailure) or SIDE_OF[agent] in SIDES:
            return text
        choice = parse_choice(text, VERDICTS)
        return choice if isinstance(choice, ParseFailure) else text


def _spoken(text: str | ParseFailure) -> str:
    """A speech as it is heard: one line, printable."""
    if isinstance(text, ParseFailure):
        return ""
    line = "".join(sign if sign.isprintable() else " " for sign in text)
    return " ".join(line.split())[:SPEECH_LENGTH].rstrip()


def _judge(judge: Judge | str) -> Judge:
    if not isinstance(judge, str):
        if callable(getattr(judge, "judge", None)):
            return judge
        raise EnvConfigError(f"judge must be 'rules' or have a method judge(debate), got {judge!r}")
    if judge == "rules":
        return RuleJudge()
    if ":" not in judge:
        raise EnvConfigError(f"judge must be 'rules' or 'module:function', got {judge!r}")
    return _judge(loading.code(judge, "judge")())


def _topics(
    topics: Sequence[str] | str | os.PathLike[str] | None, split: str | None
) -> tuple[str, ...]:
    """The motions of the split; whoever gives topics has chosen them."""
    default = "train" if topics is None else "any"
    wanted = check_choice("split", default if split is None else split, (*SPLITS, "any"))
    if topics is None:
        found = load_topics(SHIPPED)
    elif isinstance(topics, str | os.PathLike):
        found = load_topics(loading.place(topics, "topics"))
    else:
        found = checked_all(topics)
    kept = tuple(motion for motion in found if wanted in ("any", split_of(motion)))
    if not kept:
        raise EnvConfigError(f"none of {len(found)} topics is of the {wanted} split: split='any'")
    return kept


parallel_env = parallel_form(DebateEnv)
