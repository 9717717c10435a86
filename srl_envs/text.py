"""Text views: prompts for observations, and actions for answers in words."""

from __future__ import annotations

import re
import string
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Protocol

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv
from pettingzoo.utils import BaseParallelWrapper

from srl_envs.errors import EnvError
from srl_envs.validation import Reset, Step, asks_nothing, shown, whole_number

# Characters that are removed around a choice: white space, quotes, Markdown and punctuation. Marks
# that negate a choice or change a number are kept: leading '!', '-' and '.', and '~' (struck out).
_QUOTES = "\"'`\u00b4\u2018\u2019\u201c\u201d\u201e\u00ab\u00bb"
_BEFORE = string.whitespace + _QUOTES + "*_#>([{:,;"
_AFTER = string.whitespace + _QUOTES + "*_)]}.,:;!?\u2026\u3002\uff01"
_BULLETS = ("- ", "+ ", "\u2022 ", "\u2013 ", "\u2014 ")
_LABELS = ("answer", "action", "choice")
_TAGGED = re.compile(r"<answer>((?:(?!<answer>).)*)</answer>", re.IGNORECASE | re.DOTALL)


def readings(statement: str) -> Iterator[str]:
    """Yield two or three readings of a statement, all in lower case.

    These are the statement itself, the statement without surrounding quotes, Markdown and
    punctuation, and, if this starts with "answer:", "action:" or "choice:", the rest.
    """
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
    """Return the contents of all closed `<answer>...</answer>` (in any case), in order."""
    return _TAGGED.findall(text) if "<" in text else []


ANSWER_LENGTH = 16_384  # greatest number of characters of an answer in action spaces
TEXT_LENGTH = 16_384  # greatest number of characters of a text observation


class SpacesOfAgents:
    """Mixin that takes PettingZoo's spaces of an agent from two mappings: agent -> space."""

    observation_spaces: Mapping[str, Any]
    action_spaces: Mapping[str, Any]

    def observation_space(self, agent: str) -> Any:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Any:
        return self.action_spaces[agent]


class TextSpace(spaces.Text):
    """Space of all strings of up to `max_length` characters.

    Unlike Gymnasium's Text, it contains strings with any characters. Samples are ASCII, with
    tabs and line breaks.
    """

    def __init__(self, max_length: int, seed: int | np.random.Generator | None = None) -> None:
        super().__init__(max_length, min_length=0, charset=string.printable, seed=seed)

    def contains(self, x: Any) -> bool:
        return isinstance(x, str) and len(x) <= self.max_length

    def __repr__(self) -> str:
        return f"TextSpace({self.max_length})"


BINARY_ANSWERS = ("compete", "cooperate")
"""Answers for actions 0 and 1."""
HOW_TO_ANSWER = "Write your choice alone on the last line: compete or cooperate."


@dataclass(frozen=True)
class ParseFailure:
    """Result of parsing an answer that names no legal action."""

    reason: str
    """Clause shown to the agent, such as 'the answer was empty'."""
    instead: Any = None
    """Action that is played instead; None for the view's default action."""


LISTED = 10  # Rules list all answers if there are at most LISTED.
TO_MOVE = "to_move"
"""Key of infos. False marks an agent with a single legal action in the next step, which the rollout
plays without a policy."""
NO_CHOICE = ParseFailure("no legal choice stood alone on the last line")
NOT_LEGAL_NOW = "that choice is not allowed now"


Samples = tuple[str, ...] | None
"""Sample answers for warm starts, drawn uniformly, or None if there are none."""


class TextAction(int):
    """Number of an action, with the agent's whole answer in `text`, "" by default.

    Games use the number; messages are part of `text`.
    """

    text: str

    def __new__(cls, action: int, text: str = "") -> TextAction:
        self = int.__new__(cls, action)
        self.text = text
        return self


class TextView(Protocol):
    """Prompts and answers of one environment, without state.

    An action is an index of `answers`, or the text itself in free-text games.
    """

    @property
    def default_action(self) -> Any:
        """Action that replaces an unparsable or illegal answer, unless a method `legal` chooses.

        See `fallback_action`.
        """

    @property
    def parse_penalty(self) -> float:
        """Amount subtracted from the reward for an unparsed answer, at least 0."""

    def rules(self, agent: str) -> str:
        """Return the system message of all episodes: game, the agent's role, form of an answer."""

    def describe(self, agent: str, observation: Any) -> str:
        """Return a description of the agent's situation, given its observation."""

    def answers(self, agent: str) -> tuple[str, ...]:
        """Return one answer per discrete action, in action order; () in free-text games."""

    def parse(self, agent: str, answer: str) -> Any | ParseFailure:
        """Return the action that an answer names, or a ParseFailure. Never raises.

        Args:
            agent: Name of the agent.
            answer: The whole text. It may name an action that is not legal now.
        """


class FixedChoices:
    """Mixin of a TextView: answers `choices` for all agents, default action 0, penalty 0.1."""

    choices: ClassVar[tuple[str, ...]] = BINARY_ANSWERS
    """Answers in action order."""
    default_action = 0
    parse_penalty = 0.1

    def answers(self, agent: str) -> tuple[str, ...]:
        return self.choices

    def parse(self, agent: str, answer: str) -> int | ParseFailure:
        return parse_choice(answer, self.choices)


def parse_choice(answer: str, answers: Sequence[str]) -> int | ParseFailure:
    """Return the index of the choice that an answer states. Never raises.

    A choice counts in three places: as the whole answer, as the last non-empty line, and as the
    content of the last `<answer>...</answer>`. It may follow 'answer:', 'action:' or 'choice:'.
    Case and surrounding quotes, Markdown and punctuation do not matter, except a leading '!', '-',
    '.' or '~'. A choice inside a sentence does not count.

    Args:
        answer: The answer of the agent.
        answers: The legal choices, in action order.

    Returns:
        The index in `answers`, or a ParseFailure if no choice or two different ones are stated.
    """
    return parse_statement(answer, _legal(tuple(answers)).get)


@lru_cache(maxsize=1024)
def _legal(answers: tuple[str, ...]) -> dict[str, int]:
    return {choice.casefold(): action for action, choice in enumerate(answers)}


def parse_statement(
    answer: str, action_of: Callable[[str], int | ParseFailure | None]
) -> int | ParseFailure:
    """Return the action that an answer states in the places that `parse_choice` reads.

    Args:
        answer: The answer of the agent.
        action_of: Function that receives a statement in lower case. It returns the number of the
            action, None if the statement names no action, or a ParseFailure to return if no place
            states an action. It must not raise.

    Returns:
        The number of the action, or a ParseFailure if no action or two different ones are stated.
    """
    if not isinstance(answer, str):
        return ParseFailure("the answer is not text")
    text = answer.strip()
    if not text:
        return ParseFailure("the answer was empty")
    if text.isprintable() and "<" not in text:
        action = action_of(text.casefold())
        if isinstance(action, int):
            return action  # the usual answer, of one line, without the other readings
    lines = text.splitlines()
    several_lines = [text] if len(lines) > 1 else []
    found = set()
    failure = NO_CHOICE
    for statement in (*several_lines, lines[-1], *tagged(text)[-1:]):
        for reading in readings(statement):
            action = action_of(reading)
            if isinstance(action, ParseFailure):
                # The reason for the last line is better than the reason for several lines.
                failure = failure if statement in several_lines else action
            elif action is not None:
                found.add(action)
                break
    if len(found) == 1:
        return found.pop()
    return ParseFailure("two different choices were stated") if found else failure


@lru_cache(maxsize=1024)
def round_of(time: float, rounds: int) -> str:
    """Return 'Round 3 of 8' for `time` 2/8 (rounds played / `rounds`), and the last round for 1."""
    return f"Round {min(round(time * rounds) + 1, rounds)} of {rounds}"


def any_of(forms: Sequence[str]) -> str:
    """Return two or more answers as an enumeration: 'a', 'b' or 'c'."""
    return ", ".join(f"'{form}'" for form in forms[:-1]) + f" or '{forms[-1]}'"


def cost_of_unread(penalty: float) -> str:
    """Return a sentence on the penalty of unreadable answers, after a space; "" for penalty 0."""
    return f" What cannot be read costs {penalty:g}." if penalty else ""


def feedback(view: TextView, agent: str, failure: ParseFailure) -> str:
    """Return sentences: why an answer was not parsed and, outside free text, the action played."""
    reason, answers = f"Your last answer was not read: {failure.reason}.", view.answers(agent)
    if not answers:
        return reason
    played = view.default_action if failure.instead is None else failure.instead
    return f"{reason} So {answers[played]} was played."


def view_for(view: TextView, observation: Any) -> TextView:
    """Return the TextView of the environment that an observation is from.

    For a view of several environments (srl_envs.tasks.multitask), this is
    `view.of_observation(observation)`, otherwise `view` itself.
    """
    choose = getattr(view, "of_observation", None)
    return view if choose is None else choose(observation)


def tells_time(view: TextView, observation: Any) -> bool:
    """Return True if observations contain the remaining time (Pardo et al. 2018).

    This is the attribute `tells_time` of the view for `observation`, True if it has none.
    """
    return bool(getattr(view_for(view, observation), "tells_time", True))


def fallback_action(view: TextView, mask: Any = None) -> Any:
    """Return the action that is played for an answer that cannot be parsed.

    This is the view's default action. If the view has a method `legal`, and `mask` (of the agent's
    legal actions) is not None, it is `view.legal(default, mask)`.
    """
    legal = getattr(view, "legal", None)
    default = view.default_action
    return default if legal is None or mask is None else legal(default, mask)


def read_answer(
    view: TextView, agent: str, observation: Any, text: str, mask: Any = None
) -> Any | ParseFailure:
    """Return the legal action in an answer, or a ParseFailure with the fallback as `instead`.

    Args:
        view: Text view of the environment.
        agent: The agent that answered.
        observation: Observation that the agent answered.
        text: The answer.
        mask: Mask of the agent's legal actions, or None if all are legal.
    """
    view = view_for(view, observation)
    action = view.parse(agent, text)
    if isinstance(action, ParseFailure):
        return ParseFailure(action.reason, fallback_action(view, mask))
    if mask is None or mask[action]:
        return action
    return ParseFailure(NOT_LEGAL_NOW, fallback_action(view, mask))


WAITING = "It is not your turn. Any answer plays your only legal action."


def only_action(info: Mapping[str, Any]) -> int | None:
    """Return the action if `info` has "to_move" False and one legal action, else None."""
    mask = None if info.get(TO_MOVE, True) else info.get("action_mask")
    if mask is None:
        return None
    legal = np.asarray(mask).tolist()
    return legal.index(1) if sum(legal) == 1 else None


ANSWER_SHOWN = 500  # characters at the end of an earlier answer, where the choice is


class TextHistory:
    """Last turns of one agent as text.

    A turn consists of "Turn 1:", the situation, "You answered: ..." and, if the answer was not
    parsed, "Not read: ...".

    Args:
        turns: Number of turns that are kept, at least 0.
        length: Greatest number of characters of a text from `with_rules`.
    """

    def __init__(self, turns: int, length: int) -> None:
        self._length = length
        self._turns: deque[str] = deque(maxlen=turns)
        self._count = 0

    def add(self, situation: str, answer: str, unread: str | None) -> None:
        """Add a turn; drop the oldest if there are more than `turns`.

        A long answer is cut to its last ANSWER_SHOWN characters. `unread` is the reason for which
        the answer was not parsed, or None.
        """
        self._count += 1
        answer = answer.strip()
        if len(answer) > ANSWER_SHOWN:
            answer = f"... {answer[-ANSWER_SHOWN:].lstrip()}"
        turn = f"Turn {self._count}:\n{situation}\n{f'You answered: {answer}'.rstrip()}"
        self._turns.append(turn if unread is None else f"{turn}\nNot read: {unread}.")

    def with_rules(self, rules: str, now: str) -> str:
        """Return the text of an observation: the rules, the newest turns that fit, and `now`.

        `now` is the current situation, under "Now:" after earlier turns. A text that is still too
        long is cut at its end.
        """
        parts = [f"Now:\n{now}"]
        room = self._length - len(f"{rules}\n\n{parts[0]}")
        for turn in reversed(self._turns):
            room -= len(turn) + len("\n\n")
            if room < 0:
                break
            parts.insert(0, turn)
        return "\n\n".join([rules, *parts] if parts[1:] else [rules, now])[: self._length]


class TextEnv(SpacesOfAgents, BaseParallelWrapper):  # type: ignore[misc]  # PettingZoo ships no types
    """PettingZoo wrapper with texts as observations and actions.

    The first observation of an agent is the rules and the situation. Later ones are feedback on an
    answer that was not parsed, and the situation. With `history`, every observation contains the
    rules, earlier turns (see TextHistory), feedback and the situation. Observations have at most
    TEXT_LENGTH characters; the oldest turns are dropped first.

    An answer that names no legal action plays the fallback action (see `fallback_action`), and
    `parse_penalty` of the view is subtracted from the reward. After a step,
    `infos[agent]["parse_failure"]` is the reason, or None, and `infos[agent]["action"]` is the
    action that was played. Answers may be longer than the action space declares.
    An agent that is not to move (see TO_MOVE) plays its only legal action for any answer, and
    WAITING is its situation. The game receives its action as int, other ints as TextAction.

    Args:
        env: ParallelEnv whose `unwrapped` has a `text_view`.
        history: Number of earlier turns in every observation, at least 0. None for observations
            without earlier turns and rules.

    Raises:
        EnvError: An argument is invalid; in `step`, no episode is running or a key is wrong.
    """

    def __init__(self, env: Any, *, history: int | None = None) -> None:
        if not isinstance(env, ParallelEnv):
            raise EnvError(f"env must be a PettingZoo ParallelEnv, got {shown(env)}")
        if getattr(env.unwrapped, "text_view", None) is None:
            raise EnvError(f"env must have a `text_view` (see TextView), got {env}")
        super().__init__(env)
        self.history = None if history is None else whole_number("history", history, low=0)
        self.observation_spaces = {agent: TextSpace(TEXT_LENGTH) for agent in env.possible_agents}
        self.action_spaces = {agent: TextSpace(ANSWER_LENGTH) for agent in env.possible_agents}
        self._begun = False
        self._masks: dict[str, Any] = {}
        self._seen: Mapping[str, Any] = {}
        self._only_actions: dict[str, int] = {}
        self._situations: dict[str, str] = {}
        self._past: dict[str, TextHistory] = {}
        self._rules: dict[str, str] = {}
        self._view: TextView | None = None

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        observations, infos = self.env.reset(seed=seed, options=options)
        self._keep(observations, infos)
        self._begun = True
        if self.history:
            turns = self.history
            self._past = {a: TextHistory(turns, TEXT_LENGTH) for a in self.possible_agents}
        view = self.env.unwrapped.text_view
        if view is not self._view or hasattr(view, "of_observation"):
            self._rules, self._view = {}, view
        return self._with_history(self._situations), infos

    def step(self, actions: Mapping[str, str]) -> Step:
        asks_nothing(self._begun, self.env.agents, actions)  # Raises for invalid actions.
        view: TextView = self.env.unwrapped.text_view
        played: dict[str, Any] = {}
        text_actions: dict[str, Any] = {}
        failures: dict[str, ParseFailure] = {}
        notes: dict[str, str] = {}
        only_actions, seen = self._only_actions, self._seen
        for agent, answer in actions.items():
            if agent in only_actions:
                played[agent] = text_actions[agent] = only_actions[agent]
                continue
            action = read_answer(view, agent, seen[agent], answer, self._masks[agent])
            if isinstance(action, ParseFailure):
                failures[agent], action = action, action.instead
                notes[agent] = feedback(view_for(view, seen[agent]), agent, failures[agent]) + "\n"
            played[agent] = action
            is_number = isinstance(action, int)
            text_actions[agent] = TextAction(action, str(answer)) if is_number else action
            if self.history:
                unread = failures[agent].reason if agent in failures else None
                self._past[agent].add(self._situations[agent], str(answer), unread)
        observations, rewards, terminations, truncations, infos = self.env.step(text_actions)
        for agent, info in infos.items():
            info["action"], info["parse_failure"] = played.get(agent), None
        for agent, failure in failures.items():
            rewards[agent] -= view.parse_penalty
            infos[agent]["parse_failure"] = failure.reason
        self._keep(observations, infos)
        texts = self._situations
        if notes:
            texts = {a: (notes.get(a, "") + now)[:TEXT_LENGTH] for a, now in texts.items()}
        if self.history is not None:
            texts = self._with_history(texts)
        elif joined := {a: now for a, now in texts.items() if a not in actions}:
            texts = {**texts, **self._with_history(joined)}
        return texts, rewards, terminations, truncations, infos

    def _with_history(self, texts: Mapping[str, str]) -> dict[str, str]:
        view: TextView = self.env.unwrapped.text_view
        rules = self._rules
        for agent in texts.keys() - rules.keys():
            rules[agent] = view_for(view, self._seen[agent]).rules(agent)
        if self.history:
            return {a: self._past[a].with_rules(rules[a], now) for a, now in texts.items()}
        return {a: f"{rules[a]}\n\n{now}"[:TEXT_LENGTH] for a, now in texts.items()}

    def _keep(self, seen: Mapping[str, Any], infos: Mapping[str, Mapping[str, Any]]) -> None:
        view: TextView = self.env.unwrapped.text_view
        agents = self.agents = self.env.agents
        masks, situations, only_actions = {}, {}, {}
        for agent, observation in seen.items():
            info = infos.get(agent, {})
            only = None if info.get(TO_MOVE, True) or agent not in agents else only_action(info)
            if only is None:
                mask = info.get("action_mask")
                # Masks are copied, because callers may change infos.
                masks[agent] = None if mask is None else mask.copy()
                situations[agent] = view.describe(agent, observation)[:TEXT_LENGTH]
            else:
                only_actions[agent], situations[agent] = only, WAITING
        self._seen, self._masks = seen, masks
        self._situations, self._only_actions = situations, only_actions
