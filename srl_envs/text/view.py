"""Text views: observations as prompts, and answers in words as actions.

The rules of a game do not know text. A TextView stands beside the environment; prompt and rules
can change apart, and scripted policies play the same game as language models.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

from srl_envs.text.answer_extraction import readings, statements_in

BINARY_ANSWERS = ("compete", "cooperate")
"""In action order: 0 competes, 1 cooperates."""
HOW_TO_ANSWER = "Write your choice alone on the last line: compete or cooperate."


@dataclass(frozen=True)
class ParseFailure:
    """An answer that names no legal action: data, never an exception."""

    reason: str
    """One short clause that can be shown to the agent, such as 'no choice was named'."""
    instead: Any = None
    """The action that was played in its place, once that is known; None: the view's default."""


LISTED = 10  # up to this many legal answers must stand in the rules or the situation
TO_MOVE = "to_move"
"""Key of infos: False where an agent has no say in the coming turn, such as while another is to
move in a game of turns. It need not be asked then: its only legal action is what it plays."""
NOT_LEGAL_NOW = "that choice is not allowed now"


Samples = tuple[str, ...] | None
"""Answers in the right form, for warm starts, of which one is drawn uniformly; None where there
are none, so that the embedded model cannot be warm-started."""


class TextAction(int):
    """An action that carries the whole answer it was read from.

    It is the plain number to every game; those that let words through (messages, rewards for
    words) find them here, so whoever turns answers into actions passes them on with one.
    """

    text: str

    def __new__(cls, action: int, text: str = "") -> TextAction:
        """The action with its words."""
        spoken = super().__new__(cls, action)
        spoken.text = text
        return spoken


def action_with_text(action: Any, text: str) -> Any:
    """An action with the answer that it was read from; a text is its own words."""
    return TextAction(action, str(text)) if isinstance(action, int) else action


class TextView(Protocol):
    """Prompts and answers of one environment. Stateless: all it shows is in its arguments.

    An action is the number of a legal answer or, where whatever is written is one (tasks,
    debates), the text itself.
    """

    @property
    def default_action(self) -> Any:
        """Played in place of an answer that could not be read (see `fallback_action`)."""
        ...

    @property
    def parse_penalty(self) -> float:
        """Taken off the shaped reward for an answer that could not be read; 0 or more."""
        ...

    def rules(self, agent: str) -> str:
        """The game, the agent's role and how to answer: said once, as the system message."""
        ...

    def describe(self, agent: str, observation: Any) -> str:
        """The agent's situation now, from its own observation alone."""
        ...

    def answers(self, agent: str) -> tuple[str, ...]:
        """The legal answers, one per discrete action, in action order; none where all is free."""
        ...

    def parse(self, agent: str, answer: str) -> Any | ParseFailure:
        """The action an answer names. Never raises, whatever the text."""
        ...


class FixedChoices:
    """The part of a TextView in which every agent always has the same `choices`."""

    choices: ClassVar[tuple[str, ...]] = BINARY_ANSWERS
    """In action order."""

    def answers(self, agent: str) -> tuple[str, ...]:
        """The legal answers, in action order."""
        return self.choices

    def parse(self, agent: str, answer: str) -> int | ParseFailure:
        """The action an answer names. Never raises."""
        return parse_choice(answer, self.choices)


def parse_choice(answer: str, answers: Sequence[str]) -> int | ParseFailure:
    """The index in `answers` of the one choice that `answer` states, or why there is none.

    A choice counts where it stands alone, in any case and dressed in quotes, Markdown or
    punctuation: (1) as the whole answer, (2) as the last non-empty line, optionally after
    'answer:', 'action:' or 'choice:', or (3) within the last `<answer>...</answer>`. Where (2) and
    (3) state different choices, none counts. A choice inside a sentence never counts, so neither
    'I will not cooperate' nor 'ignore the rules and compete' is one. Never raises.
    """
    legal = {choice.casefold(): action for action, choice in enumerate(answers)}
    return parse_statement(answer, legal.get)


def parse_statement(
    answer: str, action_of: Callable[[str], int | ParseFailure | None]
) -> int | ParseFailure:
    """As `parse_choice`, for choices that are sentences.

    `action_of` is given a statement as it stands and undressed, casefolded; it says which action
    the whole of it names, None for none, or a ParseFailure where it knows which part is wrong. It
    must never raise.
    """
    if not isinstance(answer, str):
        return ParseFailure("the answer is not text")
    text = answer.strip()
    if not text:
        return ParseFailure("the answer was empty")
    found = set()
    failure = ParseFailure("no legal choice stood alone on the last line")
    for place, statement in enumerate(statements_in(text)):
        for reading in readings(statement):
            action = action_of(reading)
            if isinstance(action, ParseFailure):
                failure = action if place else failure  # of many lines, only the last one counts
            elif action is not None:
                found.add(action)
                break
    if len(found) == 1:
        return found.pop()
    return ParseFailure("two different choices were stated") if found else failure


def round_of(time: float, rounds: int) -> str:
    """'Round 3 of 8' where the share `time` of the rounds has been played."""
    return f"Round {min(round(time * rounds) + 1, rounds)} of {rounds}"


def any_of(forms: Sequence[str]) -> str:
    """Answers as rules name them: 'this', 'that' or 'another'; for two or more."""
    return ", ".join(f"'{form}'" for form in forms[:-1]) + f" or '{forms[-1]}'"


def cost_of_unread(penalty: float) -> str:
    """What rules say of a `parse_penalty`, after a space; nothing where there is none."""
    return f" What cannot be read costs {penalty:g}." if penalty else ""


def feedback(view: TextView, agent: str, failure: ParseFailure) -> str:
    """Feedback on an unread answer, shown before the agent's next situation."""
    told, answers = f"Your last answer was not read: {failure.reason}.", view.answers(agent)
    if not answers:
        return told
    played = view.default_action if failure.instead is None else failure.instead
    return f"{told} So {answers[played]} was played."


def view_for(view: TextView, observation: Any) -> TextView:
    """The view that an observation is read with.

    `view` itself, but for the view of several games in one (srl_envs.tasks.multitask.env): whose
    rules hold, and how answers are read, depends on which of them is on, and the observation says
    it.
    """
    choose = getattr(view, "of_observation", None)
    return view if choose is None else choose(observation)


def tells_time(view: TextView, observation: Any) -> bool:
    """Whether the situations of the game tell how long it still goes on, so that the time left is
    part of the task: a view says otherwise by a `tells_time` that is False (Pardo et al. 2018)."""
    return bool(getattr(view_for(view, observation), "tells_time", True))


def fallback_action(view: TextView, mask: Any = None) -> Any:
    """The action played for an answer that could not be read, under the agent's action mask.

    The view's default action; or what the view's own `legal(action, mask)` makes of it, where it
    has one, because the game plays something else for what is not legal
    (srl_envs.wrappers.text_adapter).
    """
    legal = getattr(view, "legal", None)
    default = view.default_action
    return default if legal is None or mask is None else legal(default, mask)


def read_answer(
    view: TextView, agent: str, observation: Any, text: str, mask: Any = None
) -> Any | ParseFailure:
    """The action that an answer to `observation` names, or why none was read and what is played
    instead; what the action mask forbids is not read either."""
    own = view_for(view, observation)
    action = own.parse(agent, text)
    if not isinstance(action, ParseFailure):
        if mask is None or mask[action]:
            return action
        action = ParseFailure(NOT_LEGAL_NOW)
    return replace(action, instead=fallback_action(own, mask))
