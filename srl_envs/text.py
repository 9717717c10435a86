"""Text views: observations as prompts, and answers in words as actions."""

from __future__ import annotations

import re
import string
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Protocol

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv
from pettingzoo.utils import BaseParallelWrapper

from srl_envs.errors import EnvConfigError, EnvError
from srl_envs.validation import Reset, Step, asks_nothing, shown, whole_number

# Around a choice we take off white space, quotes, Markdown and punctuation. Left on are marks that
# turn a choice into its opposite or another number: leading '!', '-' and '.', and '~' (struck out).
_QUOTES = "\"'`\u00b4\u2018\u2019\u201c\u201d\u201e\u00ab\u00bb"
_BEFORE = string.whitespace + _QUOTES + "*_#>([{:,;"
_AFTER = string.whitespace + _QUOTES + "*_)]}.,:;!?\u2026\u3002\uff01"
_BULLETS = ("- ", "+ ", "\u2022 ", "\u2013 ", "\u2014 ")
_LABELS = ("answer", "action", "choice")
_TAGGED = re.compile(r"<answer>((?:(?!<answer>).)*)</answer>", re.IGNORECASE | re.DOTALL)


def statements_in(text: str) -> tuple[str, str, str]:
    """The places that count in an answer that is not empty: the whole of it, its last line, and
    what stands in its last `<answer>...</answer>`, if anything."""
    return text, text.splitlines()[-1], (tagged(text) or [""])[-1]


def readings(statement: str) -> Iterator[str]:
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


def tagged(text: str) -> list[str]:
    """The content of each `<answer>...</answer>` of a text."""
    return _TAGGED.findall(text)


ANSWER_LENGTH = 16_384  # characters: the length that TextEnv's action space declares
TEXT_LENGTH = 16_384  # characters an observation's text may have


class SpacesOfAgents:
    """The part of a PettingZoo environment that gives the spaces it holds by agent."""

    observation_spaces: Mapping[str, Any]
    action_spaces: Mapping[str, Any]

    def observation_space(self, agent: str) -> Any:
        """The agent's observation space, the same object on every call."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Any:
        """The agent's action space, the same object on every call."""
        return self.action_spaces[agent]


class TextSpace(spaces.Text):
    """All strings of up to `max_length` characters, whatever the characters.

    Gymnasium's own Text admits letters and digits only and looks at each of them.
    """

    def __init__(self, max_length: int, seed: int | np.random.Generator | None = None) -> None:
        super().__init__(max_length, min_length=0, charset=string.printable, seed=seed)

    def contains(self, x: Any) -> bool:
        """Whether `x` is a str within the length."""
        return isinstance(x, str) and len(x) <= self.max_length

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """What Gymnasium draws, in a third of the time: it joins strings of one letter."""
        if mask is not None or probability is not None:
            return super().sample(mask, probability)
        letters = np.frombuffer("".join(self.character_list).encode("ascii"), np.uint8)
        length = self.np_random.integers(self.min_length, self.max_length + 1)
        equally = np.ones(len(letters)) / len(letters)
        drawn = self.np_random.choice(len(letters), size=length, p=equally)
        return letters[drawn].tobytes().decode("ascii")

    @property
    def is_np_flattenable(self) -> bool:
        """False: not every character has a number."""
        return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TextSpace) and self.max_length == other.max_length

    def __repr__(self) -> str:
        return f"TextSpace({self.max_length})"


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
    (srl_envs.wrappers).
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


Names = Sequence[str] | Mapping[Any, Any] | None
"""What an observation's parts are called; see `reader`."""
Reader = Callable[[Any], str]

LARGEST = 256  # numbers: more are a picture, which nobody reads as a list


def reader(space: spaces.Space[Any], names: Names = None, where: str = "the observation") -> Reader:
    """How observations of `space` read.

    `names` are, for a Discrete space, what each of its values is called; for a Box, MultiDiscrete
    or MultiBinary, what each entry is called in flat order; for a Dict or Tuple, a mapping from
    some of its parts (key or index) to the names of what is in them. Without names, values stand
    as numbers, a matrix row by row. Fractions are rounded to hundredths.

    Raises EnvConfigError, naming `where`, for names that do not fit the space, and for a space
    that does not read as words: other kinds, and more than LARGEST numbers.
    """
    if isinstance(space, spaces.Dict | spaces.Tuple):
        return _parts_reader(space, names, where)
    if isinstance(names, Mapping):
        raise EnvConfigError(
            f"fields: {where} is {space}, which has no parts: give names, not {names!r}"
        )
    if isinstance(space, spaces.Discrete):
        _require_as_many(names, int(space.n), space, where)
        return partial(_read_choice, names and tuple(names), int(space.start))
    if isinstance(space, spaces.Text):
        _require_as_many(names, 0, space, where)
        return str
    if isinstance(space, spaces.Box | spaces.MultiDiscrete | spaces.MultiBinary):
        return _array_reader(space, names, where)
    raise EnvConfigError(f"{where} is {space}, which does not read as words: give describe=")


def _parts_reader(space: spaces.Dict | spaces.Tuple[Any], names: Names, where: str) -> Reader:
    parts = space.spaces if isinstance(space, spaces.Dict) else dict(enumerate(space.spaces))
    named = {} if names is None else names
    if not isinstance(named, Mapping) or not set(named) <= set(parts):
        raise EnvConfigError(
            f"fields: {where} has the parts {', '.join(map(repr, parts))}: "
            f"give a mapping from some of these to names, got {names!r}"
        )
    readers = {
        key: reader(part, named.get(key), f"{where}[{key!r}]") for key, part in parts.items()
    }
    return partial(_read_parts, readers)


def _array_reader(
    space: spaces.Box | spaces.MultiDiscrete | spaces.MultiBinary, names: Names, where: str
) -> Reader:
    size = int(np.prod(space.shape))
    if size > LARGEST:
        raise EnvConfigError(
            f"{where} is {size} numbers, more than the {LARGEST} that read as words: give describe="
        )
    _require_as_many(names, size, space, where)
    if names is None:
        return _rows
    read = _read_switches if isinstance(space, spaces.MultiBinary) else _read_entries
    return partial(read, tuple(names))


# Readers are partials of functions, which unlike closures can be pickled.


def _read_choice(words: Sequence[str] | None, first: int, value: Any) -> str:
    return words[int(value) - first] if words else str(int(value))


def _read_parts(readers: Mapping[Any, Reader], value: Any) -> str:
    lines = ((str(key).replace("_", " "), say(value[key])) for key, say in readers.items())
    return "\n".join(f"{label}:{beside(words)}" for label, words in lines)


def _read_switches(words: Sequence[str], value: Any) -> str:
    return ", ".join(word for word, on in zip(words, np.ravel(value), strict=True) if on) or "none"


def _read_entries(words: Sequence[str], value: Any) -> str:
    entries = zip(words, np.ravel(value), strict=True)
    return ", ".join(f"{word} {_number(entry)}" for word, entry in entries)


def _require_as_many(names: Names, wanted: int, space: spaces.Space[Any], where: str) -> None:
    if names is None:
        return
    listed = isinstance(names, Sequence) and not isinstance(names, str)
    if not listed or len(names) != wanted or not all(isinstance(name, str) for name in names):
        raise EnvConfigError(f"fields: {where} is {space}: give {wanted} names, got {shown(names)}")


def _rows(value: Any) -> str:
    """A vector on one line, a matrix row by row, and more dimensions plane by plane of the last."""
    array = np.asarray(value)
    if array.ndim < 2:
        return " ".join(map(_number, array.reshape(-1)))
    if array.ndim == 2:
        return "\n".join(map(_rows, array))
    planes = np.moveaxis(array, -1, 0)
    return "\n".join(f"plane {number}:\n{_rows(plane)}" for number, plane in enumerate(planes, 1))


def _number(value: Any) -> str:
    return f"{round(float(value), 2) + 0.0:g}"  # + 0.0: nothing is called -0


def beside(words: str) -> str:
    """What stands after a label: on its line, or below it where there are several lines."""
    return f"\n{words}" if "\n" in words else f" {words}"


ANSWER_SHOWN = 500  # characters of an answer that is told again: its end, where the choice stands


class TextHistory:
    """One agent's last `turns` turns of an episode, in at most `length` characters."""

    def __init__(self, turns: int, length: int) -> None:
        self._length = length
        self._turns: deque[str] = deque(maxlen=turns)
        self._played = 0

    def add(self, situation: str, answer: str, unread: str | None) -> None:
        """Add a turn; beyond `turns`, the oldest is dropped.

        `unread` says why the answer was not read; None where it was.
        """
        self._played += 1
        answer = answer.strip()
        if len(answer) > ANSWER_SHOWN:
            answer = f"... {answer[-ANSWER_SHOWN:].lstrip()}"
        told = f"Turn {self._played}:\n{situation}\n{f'You answered: {answer}'.rstrip()}"
        self._turns.append(told if unread is None else f"{told}\nNot read: {unread}.")

    def standing_alone(self, rules: str, now: str) -> str:
        """Rules, past turns and what is to be read now; of the turns the newest that have room.

        Where not even the rest has room, its end is cut.
        """
        told = [f"Now:\n{now}"]
        room = self._length - len(f"{rules}\n\n{told[0]}")
        for said in reversed(self._turns):
            room -= len(said) + len("\n\n")
            if room < 0:
                break
            told.insert(0, said)
        return "\n\n".join([rules, *told] if told[1:] else [rules, now])[: self._length]


class TextEnv(SpacesOfAgents, BaseParallelWrapper):  # type: ignore[misc]  # PettingZoo ships no types
    """Any environment that has a TextView, observed and answered in words.

    The first observation of an episode is the rules and the situation; later ones are what is
    new: the situation, after a word of feedback where the last answer could not be read, or named
    what is not legal now. With `history`, for readers that keep no conversation, every observation
    stands by itself: the rules, up to that many of the agent's own last turns in this episode, the
    feedback and the situation (laid out as in srl_envs.text). None is longer than
    TEXT_LENGTH: the oldest turns are left out first.

    An answer that is not read plays the view's default action (see `fallback_action`) and costs
    `parse_penalty`; its reason is in `infos[agent]["parse_failure"]` (None where the answer was
    read). `infos[agent]["action"]` is the action that was played. The environment gets actions as
    TextAction. Longer answers than the action space's are read all the same. All else is the
    environment's own.

    Raises EnvError for what is no ParallelEnv with a text view, and for a missing or unknown agent.
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
        """Start an episode; see the class for what is observed."""
        observations, infos = self.env.reset(seed=seed, options=options)
        self._keep(observations, infos)
        turns = self.history or 0
        self._past = {agent: TextHistory(turns, TEXT_LENGTH) for agent in self.possible_agents}
        return self._standing_alone(self._situations), infos

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
            agent: action_with_text(action, actions[agent]) for agent, action in played.items()
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


class FocalAgent:
    """The one agent of `game`, a ParallelEnv in words in which partners play the others.

    TRL makes a tool of every public method but `reset` and `get_reward`, and one such object per
    completion that is under way at once. Tools that raise are a failed call to TRL, which goes on;
    so a game that was spoilt raises its EnvError when its reward is asked for. Raises EnvError for
    a game that has several agents left.
    """

    def __init__(self, game: Any) -> None:
        if len(game.possible_agents) != 1:
            raise EnvError(
                f"{', '.join(game.possible_agents)} are left to one model: name partners for all "
                "agents but one"
            )
        self._game = game
        [self._agent] = game.possible_agents
        self._earned = 0.0
        self._spoilt: EnvError | None = None

    def reset(self, seed: int | None = None, **row: Any) -> str:
        """Start an episode from the row's `seed`; the rules and the first situation."""
        self._earned, self._spoilt = 0.0, None
        observations, _ = self._game.reset(seed=seed)
        told: str = observations[self._agent]
        return told

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
            self._spoilt = error
            raise
        self._earned += rewards[self._agent]
        told: str = seen[self._agent]
        return told if self._game.agents else f"{told}\nThe game is over."

    def get_reward(self) -> float:
        """The return of what was played since the last reset."""
        if self._spoilt is not None:
            raise self._spoilt
        return self._earned
