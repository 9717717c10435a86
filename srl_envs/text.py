"""How a seat's situation reads, and how an answer becomes an action.

The rules of a game do not know text. A TextView stands beside the environment; prompt and rules
can change apart, and classic policies play the same game as language models.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

from srl_envs.errors import EnvError

BINARY_ANSWERS = ("compete", "cooperate")
"""In action order: 0 competes, 1 cooperates."""
HOW_TO_ANSWER = "Write your choice alone on the last line: compete or cooperate."

ANSWER_LENGTH = 16_384  # characters: the length that TextEnv's action space declares
TEXT_LENGTH = 16_384  # characters an observation's text may have

# Around a choice we take off white space, quotes, Markdown and punctuation. Left on are marks that
# turn a choice into its opposite or another number: leading '!', '-' and '.', and '~' (struck out).
_QUOTES = "\"'`\u00b4\u2018\u2019\u201c\u201d\u201e\u00ab\u00bb"
_BEFORE = string.whitespace + _QUOTES + "*_#>([{:,;"
_AFTER = string.whitespace + _QUOTES + "*_)]}.,:;!?\u2026\u3002\uff01"
_BULLETS = ("- ", "+ ", "\u2022 ", "\u2013 ", "\u2014 ")
_LABELS = ("answer", "action", "choice")
_OPEN, _CLOSE = "<answer>", "</answer>"


@dataclass(frozen=True)
class ParseFailure:
    """An answer that names no legal action: data, never an exception."""

    reason: str
    """One short clause that can be shown to the seat, such as 'no choice was named'."""


LISTED = 10  # up to this many legal answers must stand in the rules or the situation
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
        """Played in place of an answer that could not be read."""
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


def parse_statement(answer: str, action_of: Callable[[str], int | None]) -> int | ParseFailure:
    """As `parse_choice`, for choices that are sentences.

    `action_of` is given a statement as it stands and undressed, casefolded; it says which action
    the whole of it names, or None. It must never raise.
    """
    if not isinstance(answer, str):
        return ParseFailure("the answer is not text")
    text = answer.strip()
    if not text:
        return ParseFailure("the answer was empty")
    found = set()
    for statement in (text, text.splitlines()[-1], _tagged(text)):
        actions = (action_of(reading) for reading in _readings(statement))
        action = next((action for action in actions if action is not None), None)
        if action is not None:
            found.add(action)
    if len(found) == 1:
        return found.pop()
    if found:
        return ParseFailure("two different choices were stated")
    return ParseFailure("no legal choice stood alone on the last line")


def any_of(forms: Sequence[str]) -> str:
    """Answers as rules name them: 'this', 'that' or 'another'; for two or more."""
    return ", ".join(f"'{form}'" for form in forms[:-1]) + f" or '{forms[-1]}'"


def feedback(failure: ParseFailure, default_answer: str | None) -> str:
    """What the seat is told, before its next situation, about an answer that could not be read.

    `default_answer` was played instead; None where nothing was.
    """
    said = f"Your last answer was not read: {failure.reason}."
    return said if default_answer is None else f"{said} So {default_answer} was played."


def view_for(view: TextView, observation: Any) -> TextView:
    """The view that an observation is read with.

    `view` itself, but for the view of several games in one (srl_envs.multitask_v0): whose rules
    hold, and how answers are read, depends on which of them is on, and the observation says it.
    """
    choose = getattr(view, "of_observation", None)
    return view if choose is None else choose(observation)


def default_in_words(view: TextView, agent: str) -> str | None:
    """What is played in place of an answer that could not be read; None where nothing is."""
    answers = view.answers(agent)
    return answers[view.default_action] if answers else None


def _readings(statement: str) -> Iterator[str]:
    """The statement as it stands, undressed, and without its label: the first legal one counts."""
    yield statement.strip().casefold()
    plain = _undressed(statement)
    yield plain.casefold()
    label, colon, rest = plain.partition(":")
    if colon and label.rstrip(" *_").casefold() in _LABELS:
        yield _undressed(rest).casefold()


def _undressed(statement: str) -> str:
    plain = statement.strip().lstrip(_BEFORE).rstrip(_AFTER)
    if plain.startswith(_BULLETS):
        plain = plain[2:].lstrip(_BEFORE)
    return plain


def _tagged(text: str) -> str:
    """What stands in the last <answer>...</answer>, or nothing."""
    low = text.lower()  # its own length may differ from the text's, so it is cut itself
    end = low.rfind(_CLOSE)
    start = low.rfind(_OPEN, 0, max(end, 0))
    return low[start + len(_OPEN) : end] if end >= 0 and start >= 0 else ""


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


class TextEnv(ParallelEnv):  # type: ignore[misc]  # PettingZoo ships no types
    """Any environment that has a TextView, observed and answered in words.

    The first observation of an episode is the rules and the situation; later ones are the
    situation, after a word of feedback where the last answer could not be read, or named what is
    not legal now. Such an answer plays the view's default action, costs `parse_penalty`, and its
    reason is in `infos[agent]["parse_failure"]` (None where the answer was read);
    `infos[agent]["action"]` is the action that was played. The environment gets actions as Spoken.

    Raises EnvError for an environment without a text view, and for a missing or unknown seat.
    """

    def __init__(self, env: Any) -> None:
        if getattr(env.unwrapped, "text_view", None) is None:
            raise EnvError(f"{env} has no text view: give it a `text_view` (see TextView)")
        self.env = env
        self.metadata = env.metadata
        self.possible_agents: list[str] = list(env.possible_agents)
        self.observation_spaces = {a: TextSpace(TEXT_LENGTH) for a in self.possible_agents}
        self.action_spaces = {a: TextSpace(ANSWER_LENGTH) for a in self.possible_agents}
        self._masks: dict[str, Any] = {}
        self._seen: dict[str, Any] = {}

    @property
    def agents(self) -> list[str]:
        """The seats now in play."""
        agents: list[str] = self.env.agents
        return agents

    @property
    def unwrapped(self) -> Any:
        """The environment itself, without wrappers."""
        return self.env.unwrapped

    @property
    def render_mode(self) -> str | None:
        """The environment's own."""
        mode: str | None = self.env.render_mode
        return mode

    @property
    def state_space(self) -> spaces.Space[Any]:
        """The environment's own."""
        space: spaces.Space[Any] = self.env.state_space
        return space

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
        self._keep_masks(infos)
        self._seen = dict(observations)
        view = self._view()
        texts = {
            agent: f"{view_for(view, seen).rules(agent)}\n\n{view.describe(agent, seen)}"
            for agent, seen in observations.items()
        }
        return texts, infos

    def step(
        self, actions: Mapping[str, str]
    ) -> tuple[
        dict[str, str],
        dict[str, float],
        dict[str, bool],
        dict[str, bool],
        dict[str, dict[str, Any]],
    ]:
        """Play one round with one answer in words per seat."""
        view = self._view()
        played: dict[str, Any] = {}
        failures: dict[str, ParseFailure] = {}
        for agent, answer in actions.items():
            if agent not in self.agents:
                raise EnvError(f"an answer for {agent!r}, who is not among {self.agents}")
            action = self._read(agent, answer)
            if isinstance(action, ParseFailure):
                failures[agent] = action
                action = view.default_action
            played[agent] = action
        spoken = {agent: spoken_as(action, actions[agent]) for agent, action in played.items()}
        observations, rewards, terminations, truncations, infos = self.env.step(spoken)
        self._keep_masks(infos)
        self._seen = dict(observations)
        texts = {agent: view.describe(agent, seen) for agent, seen in observations.items()}
        for agent, info in infos.items():
            info["action"], info["parse_failure"] = played.get(agent), None
        for agent, failure in failures.items():
            said = feedback(failure, default_in_words(view, agent))
            texts[agent] = f"{said}\n{texts[agent]}"
            rewards[agent] -= view.parse_penalty
            infos[agent]["parse_failure"] = failure.reason
        return texts, rewards, terminations, truncations, infos

    def state(self) -> np.ndarray:
        """The environment's own."""
        state: np.ndarray = self.env.state()
        return state

    def render(self) -> Any:
        """The environment's own."""
        return self.env.render()

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    def _read(self, agent: str, answer: str) -> Any | ParseFailure:
        view = view_for(self._view(), self._seen[agent])
        action, mask = view.parse(agent, answer), self._masks.get(agent)
        if isinstance(action, ParseFailure) or mask is None or mask[action]:
            return action
        return ParseFailure(NOT_LEGAL_NOW)

    def _keep_masks(self, infos: Mapping[str, Mapping[str, Any]]) -> None:
        # Our own, because the infos are the caller's to write into.
        masks = {agent: info.get("action_mask") for agent, info in infos.items()}
        self._masks = {a: None if mask is None else mask.copy() for a, mask in masks.items()}

    def _view(self) -> TextView:
        view: TextView = self.env.unwrapped.text_view
        return view
