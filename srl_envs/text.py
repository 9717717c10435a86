"""Text views: observations as prompts, and answers in words as actions."""

from __future__ import annotations

import re
import string
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv
from pettingzoo.utils import BaseParallelWrapper

from srl_envs.errors import EnvConfigError, EnvError
from srl_envs.validation import Reset, Step, asks_nothing, shown, whole_number

# Removed around a choice: white space, quotes, Markdown and punctuation. Marks that turn a choice
# into its opposite or another number stay: leading '!', '-' and '.', and '~' (struck out).
_QUOTES = "\"'`\u00b4\u2018\u2019\u201c\u201d\u201e\u00ab\u00bb"
_BEFORE = string.whitespace + _QUOTES + "*_#>([{:,;"
_AFTER = string.whitespace + _QUOTES + "*_)]}.,:;!?\u2026\u3002\uff01"
_BULLETS = ("- ", "+ ", "\u2022 ", "\u2013 ", "\u2014 ")
_LABELS = ("answer", "action", "choice")
_TAGGED = re.compile(r"<answer>((?:(?!<answer>).)*)</answer>", re.IGNORECASE | re.DOTALL)


def statements_in(text: str) -> tuple[str, str, str]:
    """Return the whole answer, its last line, and the content of its last `<answer>` tag."""
    return text, text.splitlines()[-1], (tagged(text) or [""])[-1]


def readings(statement: str) -> Iterator[str]:
    """Yield the statement unchanged, without decoration, and without its label."""
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


def tagged(text: str) -> list[str]:
    """Return the content of each `<answer>...</answer>` of a text."""
    return _TAGGED.findall(text)


ANSWER_LENGTH = 16_384  # characters: the length that TextEnv's action space declares
TEXT_LENGTH = 16_384  # characters an observation's text may have


class SpacesOfAgents:
    """Mixin of a PettingZoo environment that keeps its spaces in mappings by agent."""

    observation_spaces: Mapping[str, Any]
    action_spaces: Mapping[str, Any]

    def observation_space(self, agent: str) -> Any:
        """Return the agent's observation space, the same object on every call."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Any:
        """Return the agent's action space, the same object on every call."""
        return self.action_spaces[agent]


class TextSpace(spaces.Text):
    """All strings of up to `max_length` characters.

    Gymnasium's own Text allows only letters and digits and checks each of them.
    """

    def __init__(self, max_length: int, seed: int | np.random.Generator | None = None) -> None:
        super().__init__(max_length, min_length=0, charset=string.printable, seed=seed)

    def contains(self, x: Any) -> bool:
        """Return True for a str within the length."""
        return isinstance(x, str) and len(x) <= self.max_length

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """Draw the text that Gymnasium would draw, in a third of the time."""
        if mask is not None or probability is not None:
            return super().sample(mask, probability)
        letters = np.frombuffer("".join(self.character_list).encode("ascii"), np.uint8)
        length = self.np_random.integers(self.min_length, self.max_length + 1)
        equally = np.ones(len(letters)) / len(letters)
        drawn = self.np_random.choice(len(letters), size=length, p=equally)
        return letters[drawn].tobytes().decode("ascii")

    @property
    def is_np_flattenable(self) -> bool:
        """False, because not every character has a number."""
        return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TextSpace) and self.max_length == other.max_length

    def __repr__(self) -> str:
        return f"TextSpace({self.max_length})"


BINARY_ANSWERS = ("compete", "cooperate")
"""Answers of actions 0 and 1."""
HOW_TO_ANSWER = "Write your choice alone on the last line: compete or cooperate."


@dataclass(frozen=True)
class ParseFailure:
    """Result of parsing an answer that names no legal action."""

    reason: str
    """Short clause for the agent, such as 'no choice was named'."""
    instead: Any = None
    """Action that was played instead; None means the view's default action."""


LISTED = 10  # rules or situations list all legal answers, up to this many
TO_MOVE = "to_move"
"""Key of infos, False for an agent that has only one legal action in the next step, for example
while another agent is to move. The rollout then plays that action without a policy."""
NOT_LEGAL_NOW = "that choice is not allowed now"


Samples = tuple[str, ...] | None
"""Sample answers for warm starts, drawn uniformly. None rules warm starts out."""


class TextAction(int):
    """Action that carries the whole answer from which it was parsed.

    Games see a plain number. Messages and rewards for words read `text`.
    """

    text: str

    def __new__(cls, action: int, text: str = "") -> TextAction:
        """Create the action with its text."""
        spoken = super().__new__(cls, action)
        spoken.text = text
        return spoken


class TextView(Protocol):
    """Prompts and answers of one environment, without state.

    An action is the number of a legal answer, or the text itself in free-text games.
    """

    @property
    def default_action(self) -> Any:
        """Action for an answer that could not be parsed (see `fallback_action`)."""

    @property
    def parse_penalty(self) -> float:
        """Penalty for an answer that could not be parsed, 0 or more."""

    def rules(self, agent: str) -> str:
        """Return the system message: the game, the agent's role and the form of an answer."""

    def describe(self, agent: str, observation: Any) -> str:
        """Return the agent's current situation, from its own observation."""

    def answers(self, agent: str) -> tuple[str, ...]:
        """Return one answer per discrete action, in action order; none in free-text games."""

    def parse(self, agent: str, answer: str) -> Any | ParseFailure:
        """Return the action that an answer names. Never raises."""


class FixedChoices:
    """Mixin of a TextView whose agents always have the same `choices`."""

    choices: ClassVar[tuple[str, ...]] = BINARY_ANSWERS
    """Answers in action order."""

    def answers(self, agent: str) -> tuple[str, ...]:
        """Return the answers in action order."""
        return self.choices

    def parse(self, agent: str, answer: str) -> int | ParseFailure:
        """Return the action that an answer names. Never raises."""
        return parse_choice(answer, self.choices)


def parse_choice(answer: str, answers: Sequence[str]) -> int | ParseFailure:
    """Return the index of the one choice that `answer` states, or the reason for a failure.

    A choice counts if it is (1) the whole answer, (2) the last non-empty line, optionally after
    'answer:', 'action:' or 'choice:', or (3) the content of the last `<answer>...</answer>`. Case,
    quotes, Markdown and punctuation do not matter. If (2) and (3) differ, neither counts. A choice
    inside a sentence never counts, so 'I will not cooperate' is none. Never raises.
    """
    legal = {choice.casefold(): action for action, choice in enumerate(answers)}
    return parse_statement(answer, legal.get)


def parse_statement(
    answer: str, action_of: Callable[[str], int | ParseFailure | None]
) -> int | ParseFailure:
    """Parse an answer like `parse_choice`, for choices that are sentences.

    Args:
        answer: The answer of the agent.
        action_of: Maps a casefolded statement to its action, to None, or to a ParseFailure that
            names the wrong part. Must never raise.
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
    """Return text such as 'Round 3 of 8' for the share `time` of rounds that are over."""
    return f"Round {min(round(time * rounds) + 1, rounds)} of {rounds}"


def any_of(forms: Sequence[str]) -> str:
    """Return two or more answers as a list in words: 'this', 'that' or 'another'."""
    return ", ".join(f"'{form}'" for form in forms[:-1]) + f" or '{forms[-1]}'"


def cost_of_unread(penalty: float) -> str:
    """Return the sentence of the rules about a `parse_penalty`; empty for 0."""
    return f" What cannot be read costs {penalty:g}." if penalty else ""


def feedback(view: TextView, agent: str, failure: ParseFailure) -> str:
    """Return feedback on an unread answer, shown before the agent's next situation."""
    told, answers = f"Your last answer was not read: {failure.reason}.", view.answers(agent)
    if not answers:
        return told
    played = view.default_action if failure.instead is None else failure.instead
    return f"{told} So {answers[played]} was played."


def view_for(view: TextView, observation: Any) -> TextView:
    """Return the view of the game that an observation belongs to.

    Views of several games in one (srl_envs.tasks.multitask) choose by the observation; all
    other views are returned unchanged.
    """
    choose = getattr(view, "of_observation", None)
    return view if choose is None else choose(observation)


def tells_time(view: TextView, observation: Any) -> bool:
    """Return True if observations contain the remaining time (Pardo et al. 2018).

    A view without this information has an attribute `tells_time` that is False.
    """
    return bool(getattr(view_for(view, observation), "tells_time", True))


def fallback_action(view: TextView, mask: Any = None) -> Any:
    """Return the action for an answer that could not be parsed, under the agent's action mask.

    This is the view's default action, passed through the view's `legal(action, mask)` if defined.
    """
    legal = getattr(view, "legal", None)
    default = view.default_action
    return default if legal is None or mask is None else legal(default, mask)


def read_answer(
    view: TextView, agent: str, observation: Any, text: str, mask: Any = None
) -> Any | ParseFailure:
    """Return the legal action that an answer names, or a failure with the action played instead."""
    own = view_for(view, observation)
    action = own.parse(agent, text)
    if not isinstance(action, ParseFailure):
        if mask is None or mask[action]:
            return action
        action = ParseFailure(NOT_LEGAL_NOW)
    return replace(action, instead=fallback_action(own, mask))


LARGEST = 256  # numbers: more are a picture


def in_words(space: spaces.Space[Any], value: Any, where: str = "the observation") -> str:
    """Describe an observation, to follow a label: a space and one line, or several new lines.

    Numbers are rounded to hundredths, matrices are written by rows, and parts by name.

    Raises:
        EnvConfigError: The space has too many numbers, or numbers that do not read as words. The
            message names `where`.
    """
    if isinstance(space, spaces.Dict | spaces.Tuple):
        parts = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        words = "\n".join(
            f"{str(key).replace('_', ' ')}:{in_words(part, value[key], f'{where}[{key!r}]')}"
            for key, part in parts
        )
    elif isinstance(space, spaces.Text):
        words = str(value)
    elif isinstance(
        space, spaces.Discrete | spaces.Box | spaces.MultiDiscrete | spaces.MultiBinary
    ):
        array = np.asarray(value)
        if array.size > LARGEST:
            raise EnvConfigError(
                f"{where} is {array.size} numbers, more than the {LARGEST} that read as words: "
                "give describe="
            )
        words = _rows(array)
    else:
        raise EnvConfigError(f"{where} is {space}, which does not read as words: give describe=")
    return f"\n{words}" if "\n" in words else f" {words}"


def _rows(array: np.ndarray) -> str:
    """Write a vector on one line, a matrix by rows, other arrays by planes of the last axis."""
    if array.ndim < 2:
        # + 0.0 turns -0 into 0
        return " ".join(f"{round(float(value), 2) + 0.0:g}" for value in array.reshape(-1))
    if array.ndim == 2:
        return "\n".join(map(_rows, array))
    planes = np.moveaxis(array, -1, 0)
    return "\n".join(f"plane {number}:\n{_rows(plane)}" for number, plane in enumerate(planes, 1))


ANSWER_SHOWN = 500  # characters: the end of an earlier answer, which contains the choice


class TextHistory:
    """History of one agent's last `turns` turns, in at most `length` characters.

    Its texts contain the rules, then for each turn "Turn 1:", the situation, "You answered: ..."
    and, for an unread answer, "Not read: ...", and at the end "Now:" with the situation.
    """

    def __init__(self, turns: int, length: int) -> None:
        self._length = length
        self._turns: deque[str] = deque(maxlen=turns)
        self._played = 0

    def add(self, situation: str, answer: str, unread: str | None) -> None:
        """Add a turn; `unread` is the reason why the answer was not parsed."""
        self._played += 1
        answer = answer.strip()
        if len(answer) > ANSWER_SHOWN:
            answer = f"... {answer[-ANSWER_SHOWN:].lstrip()}"
        told = f"Turn {self._played}:\n{situation}\n{f'You answered: {answer}'.rstrip()}"
        self._turns.append(told if unread is None else f"{told}\nNot read: {unread}.")

    def with_rules(self, rules: str, now: str) -> str:
        """Return the rules, the newest turns that fit, and the current situation."""
        told = [f"Now:\n{now}"]
        room = self._length - len(f"{rules}\n\n{told[0]}")
        for said in reversed(self._turns):
            room -= len(said) + len("\n\n")
            if room < 0:
                break
            told.insert(0, said)
        return "\n\n".join([rules, *told] if told[1:] else [rules, now])[: self._length]


class TextEnv(SpacesOfAgents, BaseParallelWrapper):  # type: ignore[misc]  # PettingZoo ships no types
    """Any environment that has a TextView, with texts as observations and actions.

    The first observation of an episode is the rules and the situation. Later ones are feedback on
    an unread answer and the situation. With `history`, each observation contains the rules, up to
    `history` earlier turns, feedback and the situation (see TextHistory). No observation is longer
    than TEXT_LENGTH; the oldest turns are dropped first.

    An unread answer plays the fallback action (see `fallback_action`) and costs `parse_penalty`.
    `infos[agent]["parse_failure"]` is the reason or None, and `infos[agent]["action"]` the action
    that was played. The environment receives TextAction. Answers may exceed the action space's
    length.

    Raises:
        EnvError: `env` is no ParallelEnv with a text view, or an agent is missing or unknown.
    """

    def __init__(self, env: Any, *, history: int | None = None) -> None:
        if not isinstance(env, ParallelEnv):
            raise EnvError(
                f"TextEnv got {shown(env)}: give a PettingZoo ParallelEnv with a text view"
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

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        """Start an episode; see the class for the observations."""
        observations, infos = self.env.reset(seed=seed, options=options)
        self._keep(observations, infos)
        turns = self.history or 0
        self._past = {agent: TextHistory(turns, TEXT_LENGTH) for agent in self.possible_agents}
        return self._with_history(self._situations), infos

    def step(self, actions: Mapping[str, str]) -> Step:
        """Play one round with one answer in words per agent."""
        asks_nothing(bool(self._past), self.agents, actions)  # refuses what does not fit
        view: TextView = self.env.unwrapped.text_view
        played: dict[str, Any] = {}
        failures: dict[str, ParseFailure] = {}
        said: dict[str, str] = {}
        for agent, answer in actions.items():
            seen = self._seen[agent]
            action = read_answer(view, agent, seen, answer, self._masks[agent])
            if isinstance(action, ParseFailure):
                failures[agent], action = action, action.instead
                said[agent] = feedback(view_for(view, seen), agent, failures[agent]) + "\n"
            played[agent] = action
        spoken = {
            agent: TextAction(action, str(actions[agent])) if isinstance(action, int) else action
            for agent, action in played.items()
        }
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
            texts = self._with_history(texts)
        return texts, rewards, terminations, truncations, infos

    def _with_history(self, texts: Mapping[str, str]) -> dict[str, str]:
        view: TextView = self.env.unwrapped.text_view
        return {
            agent: self._past[agent].with_rules(view_for(view, self._seen[agent]).rules(agent), now)
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


class FocalAgent:
    """Object with tools for the one agent of a text game, for TRL's `environment_factory`.

    `game` is a ParallelEnv in words whose other agents are played by partners. TRL makes a tool of
    every public method except `reset` and `get_reward`, and one object per concurrent completion.
    TRL records an exception of a tool as a failed call, so `get_reward` raises it again.

    Raises:
        EnvError: The game has more than one agent.
    """

    def __init__(self, game: Any) -> None:
        if len(game.possible_agents) != 1:
            raise EnvError(
                f"{', '.join(game.possible_agents)} are left to one model: name partners for all "
                "agents but one"
            )
        self._game = game
        [self._agent] = game.possible_agents
        self._return = 0.0
        self._error: EnvError | None = None

    def reset(self, seed: int | None = None, **row: Any) -> str:
        """Start an episode from the row's `seed`; return the rules and the first situation."""
        self._return, self._error = 0.0, None
        observations, _ = self._game.reset(seed=seed)
        first: str = observations[self._agent]
        return first

    def play(self, answer: str) -> str:
        """Play your next turn of the game.

        Args:
            answer: Your answer, written as the rules say.

        Returns:
            Your situation after the turn.
        """
        if not self._game.agents:
            return "The game is over."
        try:
            # A model may call it with anything, and of any length.
            said = str(answer)[:ANSWER_LENGTH]
            seen, rewards, *_ = self._game.step({self._agent: said})
        except EnvError as error:
            self._error = error
            raise
        self._return += rewards[self._agent]
        told: str = seen[self._agent]
        return told if self._game.agents else f"{told}\nThe game is over."

    def get_reward(self) -> float:
        """Return the sum of rewards since the last reset."""
        if self._error is not None:
            raise self._error
        return self._return
