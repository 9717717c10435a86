"""How a seat's situation reads, and how an answer becomes an action.

The rules of a game do not know text. A TextView stands beside the environment; prompt and rules
can change apart, and classic policies play the same game as language models.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv
from pettingzoo.utils import BaseParallelWrapper

from srl_envs.errors import EnvError
from srl_envs.text.answer_extraction import readings, statements_in
from srl_envs.text.history import TextHistory
from srl_envs.validation import Step, told, whole_number

BINARY_ANSWERS = ("compete", "cooperate")
"""In action order: 0 competes, 1 cooperates."""
HOW_TO_ANSWER = "Write your choice alone on the last line: compete or cooperate."

ANSWER_LENGTH = 16_384  # characters: the length that TextEnv's action space declares
TEXT_LENGTH = 16_384  # characters an observation's text may have


@dataclass(frozen=True)
class ParseFailure:
    """An answer that names no legal action: data, never an exception."""

    reason: str
    """One short clause that can be shown to the seat, such as 'no choice was named'."""
    instead: Any = None
    """The action that was played in its place, once that is known; None: the view's default."""


LISTED = 10  # up to this many legal answers must stand in the rules or the situation
TO_MOVE = "to_move"
"""Key of infos: False where a seat has no say in the coming turn, such as while another is to move
in a game of turns. It need not be asked then: its only legal action is what it plays."""
NOT_LEGAL_NOW = "that choice is not allowed now"


class Spoken(int):
    """An action that carries the whole answer it was read from.

    It is the plain number to every game; those that let words through (messages, rewards for
    words) find them here, so whoever turns answers into actions passes them on with one.
    """

    text: str

    def __new__(cls, action: int, text: str = "") -> Spoken:
        """The action with its words."""
        spoken = super().__new__(cls, action)
        spoken.text = text
        return spoken


def spoken_as(action: Any, text: str) -> Any:
    """An action with the answer that it was read from; a text is its own words."""
    return Spoken(action, str(text)) if isinstance(action, int) else action


class TextView(Protocol):
    """How one environment reads and is answered. Stateless: all it shows is in its arguments.

    An action is the number of a legal answer or, where whatever is written is one (tasks,
    debates), the text itself.
    """

    @property
    def default_action(self) -> Any:
        """Played in place of an answer that could not be read (see `in_place_of_unread`)."""
        ...

    @property
    def parse_penalty(self) -> float:
        """Taken off the shaped reward for an answer that could not be read; 0 or more."""
        ...

    def rules(self, agent: str) -> str:
        """The game, the seat's role and how to answer: said once, as the system message."""
        ...

    def describe(self, agent: str, observation: Any) -> str:
        """The seat's situation now, from its own observation alone."""
        ...

    def answers(self, agent: str) -> tuple[str, ...]:
        """The legal answers, one per discrete action, in action order; none where all is free."""
        ...

    def parse(self, agent: str, answer: str) -> Any | ParseFailure:
        """The action an answer names. Never raises, whatever the text."""
        ...


class BinaryChoice:
    """The part of a TextView in which every seat may always compete or cooperate."""

    def answers(self, agent: str) -> tuple[str, ...]:
        """The legal answers, in action order."""
        return BINARY_ANSWERS

    def parse(self, agent: str, answer: str) -> int | ParseFailure:
        """The action an answer names. Never raises."""
        return parse_choice(answer, BINARY_ANSWERS)


def parse_choice(answer: str, answers: Sequence[str]) -> int | ParseFailure:
    """The index in `answers` of the one choice that `answer` states, or why there is none.

    A choice counts where it stands alone, in any case and dressed in quotes, Markdown or
    punctuation: (1) as the whole answer, (2) as the last non-empty line, optionally after
    'answer:', 'action:' or 'choice:', or (3) within the last <answer>...</answer>. Where (2) and
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


def any_of(forms: Sequence[str]) -> str:
    """Answers as rules name them: 'this', 'that' or 'another'; for two or more."""
    return ", ".join(f"'{form}'" for form in forms[:-1]) + f" or '{forms[-1]}'"


def cost_of_unread(penalty: float) -> str:
    """What rules say of a `parse_penalty`, after a space; nothing where there is none."""
    return f" What cannot be read costs {penalty:g}." if penalty else ""


def feedback(view: TextView, agent: str, failure: ParseFailure) -> str:
    """What an agent is told, before its next situation, about an answer that could not be read."""
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


def in_place_of_unread(view: TextView, mask: Any = None) -> Any:
    """What is played for an answer that could not be read, under the seat's action mask.

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
    return replace(action, instead=in_place_of_unread(own, mask))


class TextSpace(spaces.Text):
    """All strings of up to `max_length` characters, whatever the characters.

    Gymnasium's own Text admits letters and digits only and looks at each of them.
    """

    def __init__(self, max_length: int, seed: int | np.random.Generator | None = None) -> None:
        super().__init__(max_length, min_length=0, charset=string.printable, seed=seed)

    def contains(self, x: Any) -> bool:
        """Whether `x` is a str within the length."""
        return isinstance(x, str) and len(x) <= self.max_length

    @property
    def is_np_flattenable(self) -> bool:
        """False: not every character has a number."""
        return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TextSpace) and self.max_length == other.max_length

    def __repr__(self) -> str:
        return f"TextSpace({self.max_length})"


class TextEnv(BaseParallelWrapper):  # type: ignore[misc]  # PettingZoo ships no types
    """Any environment that has a TextView, observed and answered in words.

    The first observation of an episode is the rules and the situation; later ones are what is
    new: the situation, after a word of feedback where the last answer could not be read, or named
    what is not legal now. With `history`, for readers that keep no conversation, every observation
    stands by itself: the rules, up to that many of the agent's own last turns in this episode, the
    feedback and the situation (laid out as in srl_envs.text.history). None is longer than
    TEXT_LENGTH: the oldest turns are left out first.

    An answer that is not read plays the view's default action (see `in_place_of_unread`) and costs
    `parse_penalty`; its reason is in `infos[agent]["parse_failure"]` (None where the answer was
    read). `infos[agent]["action"]` is the action that was played. The environment gets actions as
    Spoken. All else is the environment's own.

    Raises EnvError for what is no ParallelEnv with a text view, and for a missing or unknown agent.
    """

    def __init__(self, env: Any, *, history: int | None = None) -> None:
        if not isinstance(env, ParallelEnv):
            raise EnvError(
                f"TextEnv got {told(env)}: give a PettingZoo ParallelEnv with a text view"
            )
        if getattr(env.unwrapped, "text_view", None) is None:
            raise EnvError(f"{env} has no text view: give it a `text_view` (see TextView)")
        super().__init__(env)
        self.history = None if history is None else whole_number("history", history, low=0)
        self.observation_spaces = {agent: TextSpace(TEXT_LENGTH) for agent in env.possible_agents}
        self.action_spaces = {agent: TextSpace(ANSWER_LENGTH) for agent in env.possible_agents}
        self._masks: dict[str, Any] = {}
        self._seen: dict[str, Any] = {}
        self._situations: dict[str, str] = {}
        self._past: dict[str, TextHistory] = {}

    def observation_space(self, agent: str) -> TextSpace:
        """The same object on every call."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> TextSpace:
        """The same object on every call. Longer answers are read all the same."""
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
        """Start an episode; see the class for what is observed."""
        observations, infos = self.env.reset(seed=seed, options=options)
        self._keep(observations, infos)
        turns = self.history or 0
        self._past = {agent: TextHistory(turns, TEXT_LENGTH) for agent in self.possible_agents}
        return self._standing_alone(self._situations), infos

    def step(self, actions: Mapping[str, str]) -> Step:
        """Play one round with one answer in words per agent."""
        if not isinstance(actions, Mapping):
            raise EnvError(f"actions must be a mapping agent -> answer, got {told(actions)}")
        view: TextView = self.env.unwrapped.text_view
        played: dict[str, Any] = {}
        failures: dict[str, ParseFailure] = {}
        said: dict[str, str] = {}
        for agent, answer in actions.items():
            if agent not in self.agents:
                raise EnvError(f"an answer for {agent!r}, who is not among {self.agents}")
            seen = self._seen[agent]
            action = read_answer(view, agent, seen, answer, self._masks[agent])
            if isinstance(action, ParseFailure):
                failures[agent], action = action, action.instead
                said[agent] = feedback(view_for(view, seen), agent, failures[agent]) + "\n"
            played[agent] = action
        spoken = {agent: spoken_as(action, actions[agent]) for agent, action in played.items()}
        observations, rewards, terminations, truncations, infos = self.env.step(spoken)
        for agent, answer in actions.items():
            unread = failures[agent].reason if agent in failures else None
            self._past[agent].add(self._situations[agent], str(answer), unread)
        for agent, info in infos.items():
            info["action"], info["parse_failure"] = played.get(agent), None
        for agent, failure in failures.items():
            rewards[agent] -= view.parse_penalty
            infos[agent]["parse_failure"] = failure.reason
        self._keep(observations, infos)
        texts = {
            agent: (said.get(agent, "") + now)[:TEXT_LENGTH]
            for agent, now in self._situations.items()
        }
        if self.history is not None:
            texts = self._standing_alone(texts)
        return texts, rewards, terminations, truncations, infos

    def _standing_alone(self, texts: Mapping[str, str]) -> dict[str, str]:
        view: TextView = self.env.unwrapped.text_view
        return {
            agent: self._past[agent].standing_alone(
                view_for(view, self._seen[agent]).rules(agent), now
            )
            for agent, now in texts.items()
        }

    def _keep(self, seen: Mapping[str, Any], infos: Mapping[str, Mapping[str, Any]]) -> None:
        view: TextView = self.env.unwrapped.text_view
        self._seen = dict(seen)
        self._situations = {
            agent: view.describe(agent, seen[agent])[:TEXT_LENGTH] for agent in seen
        }
        # Masks of our own, because the infos are the caller's to write into.
        masks = {agent: infos.get(agent, {}).get("action_mask") for agent in seen}
        self._masks = {a: None if mask is None else mask.copy() for a, mask in masks.items()}
