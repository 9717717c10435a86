"""Cheap talk: free messages in text, and words that are part of discrete actions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from srl_envs.errors import EnvConfigError
from srl_envs.games import base
from srl_envs.text import LISTED, TEXT_LENGTH, ParseFailure, TextAction, TextSpace, TextView, any_of
from srl_envs.validation import Reset, true_or_false, whole_number

WORDS = "abcdefgh"
"""Names of the words in text."""
_SAID = re.compile(rf" and say ([{WORDS}])(?=\W*(?:</answer>\W*)?$)", re.IGNORECASE)
MESSAGE_LENGTH = 120  # characters of a message
MESSAGE_RULE = "What you write above the last line is read by all others."


def message_in(answer: str) -> str:
    """Return the text above an answer's last line as one line, "" if there is none.

    Blank lines at the end do not count. Runs of spaces, line breaks and control characters become
    one space, and double quotes single ones. The result is cut to MESSAGE_LENGTH characters.
    """
    lines = answer.strip().splitlines()
    words = "".join(c if c.isprintable() else " " for c in " ".join(lines[:-1]))
    words = words.replace('"', "'").replace("\N{FULLWIDTH QUOTATION MARK}", "'")
    return " ".join(words.split())[:MESSAGE_LENGTH].rstrip()


def message_lines(observation: Any) -> str:
    """Return the lines of `observation["messages"]`, each after a line break; "" without any."""
    if not isinstance(observation, Mapping):
        return ""
    return "".join(f"\n{line}" for line in observation.get("messages", "").splitlines())


@dataclass(frozen=True)
class TalkView:
    """Text view that adds the first `talk` of WORDS to `game`, a view without words."""

    game: TextView
    agents: tuple[str, ...]
    features: int
    """Number of features of an observation vector without the words."""
    talk: int
    default_action: Any
    parse_penalty: float

    def rules(self, agent: str) -> str:
        silent, every = self.game.answers(agent), self.answers(agent)
        shown = every[len(silent) :] if len(every) <= LISTED else (every[-1],)
        forms = any_of(shown) if shown[1:] else f"'{shown[0]}'"
        words = "the word a" if self.talk == 1 else f"a word from a to {WORDS[self.talk - 1]}"
        told = f"You may add {words}, which costs nothing and which all others read"
        return f"{self.game.rules(agent)} {told}: {forms}."

    def describe(self, agent: str, observation: Any) -> str:
        vector = base.vector_of(observation)
        quiet = vector[: self.features]
        if isinstance(observation, Mapping):
            quiet = {**observation, "observation": quiet}
        others = [other for other in self.agents if other != agent]
        flags = np.asarray(vector[self.features :]).reshape(len(others), self.talk)
        said = "".join(f" {others[i]} said {WORDS[word]}." for i, word in np.argwhere(flags > 0.5))
        return self.game.describe(agent, quiet) + said

    def answers(self, agent: str) -> tuple[str, ...]:
        silent = self.game.answers(agent)
        ends = ("", *(f" and say {word}" for word in WORDS[: self.talk]))
        return tuple(answer + end for end in ends for answer in silent)

    def parse(self, agent: str, answer: str) -> Any | ParseFailure:
        said = _SAID.search(answer) if isinstance(answer, str) else None
        if said is None:
            return self.game.parse(agent, answer)
        word = 1 + WORDS.index(said[1].lower())
        action = self.game.parse(agent, answer[: said.start()] + answer[said.end() :])
        if isinstance(action, ParseFailure):
            return action
        if word > self.talk:
            return ParseFailure(f"{said[1]} is not a word here")
        return action + word * len(self.game.answers(agent))


class TalkingGame(base.SimultaneousGame):
    """Game whose agents may talk.

    `messages` requires obs_mode "llm" (else EnvConfigError). The next observation of all others
    then has an answer's `message_in`, after the speaker's name, as a line of "messages". Views
    add the lines to "text" by `message_lines`.

    With `talk`, an action also says nothing or one of `talk` words: its number is act + word *
    number of acts, with word 0 for nothing. An observation vector ends with `talk` flags for each
    other entry of `possible_agents`: 1 for the word that this agent said in the last round.

    `talk` is 0 to 8. `answers`, `low` and `high` exclude words. `settings`: see SimultaneousGame.
    """

    def __init__(
        self,
        agents: Sequence[str],
        answers: Sequence[Any],
        low: base.Row,
        high: base.Row,
        *,
        messages: bool = False,
        talk: int = 0,
        **settings: Any,
    ) -> None:
        self.messages = true_or_false("messages", messages)
        self.talk = whole_number("talk", talk, 0, len(WORDS))
        self.acts = len(answers)
        """Number of actions without a word, which have the first numbers."""
        self.features = len(low)
        """Number of features of an observation vector without the words."""
        self._said: dict[str, int] = {}  # number of each agent's word in the last round
        self._texts: dict[str, str] = {}  # answers of the last round, by agent
        flags = (len(agents) - 1) * self.talk
        super().__init__(
            agents,
            range(self.acts * (1 + self.talk)),
            [*low, *[0.0] * flags],
            [*high, *[1.0] * flags],
            **settings,
        )
        if messages and self.obs_mode != "llm":
            raise EnvConfigError(f"obs_mode must be 'llm' with messages, got {self.obs_mode!r}")

    def with_words(self, view: TextView) -> TextView:
        if not self.talk:
            return view
        agents, default = tuple(self.possible_agents), view.default_action
        return TalkView(view, agents, self.features, self.talk, default, view.parse_penalty)

    def with_any_word(self, masks: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        """Return masks of all actions, given those of actions without words: any word is legal."""
        return [np.tile(mask, 1 + self.talk) for mask in masks] if self.talk else masks

    def begin(self, options: Mapping[str, Any]) -> None:
        self._texts = {}
        self._said = {}
        super().begin(options)

    def drawn_in_text(self) -> str:
        said = [f"{agent} said {WORDS[word - 1]}\n" for agent, word in self._said.items() if word]
        return super().drawn_in_text() + "".join(said)

    def _chosen(self, actions: Mapping[str, Any]) -> list[int]:
        chosen = super()._chosen(actions)
        if self.messages:
            texts = ((a, act.text) for a, act in actions.items() if isinstance(act, TextAction))
            self._texts = dict(texts)
        if self.talk:
            words = [action // self.acts for action in chosen]
            self._said = dict(zip(self.agents, words, strict=True))
            chosen = [action % self.acts for action in chosen]
        return chosen

    def _outgoing(self, agents: Sequence[str], round_infos: list[dict[str, Any]]) -> Reset:
        if self.talk:
            flags = np.eye(1 + self.talk)[[self._said.get(a, 0) for a in self.possible_agents], 1:]
            places = map(self.possible_agents.index, agents)
            self._rows = [
                (*row[: self.features], *np.delete(flags, place, axis=0).ravel().tolist())
                for row, place in zip(self._rows, places, strict=True)
            ]
        return super()._outgoing(agents, round_infos)

    def _space_of(self, vector: spaces.Box) -> spaces.Space[Any]:
        space = super()._space_of(vector)
        if self.messages and isinstance(space, spaces.Dict):
            return spaces.Dict({**space.spaces, "messages": TextSpace(TEXT_LENGTH)})
        return space

    def _observations(self, vectors: dict[str, np.ndarray]) -> dict[str, Any]:
        observations = super()._observations(vectors)
        if self.messages:
            messages = {speaker: message_in(text) for speaker, text in self._texts.items()}
            for agent, seen in observations.items():
                seen["messages"] = "\n".join(
                    f'{speaker} says: "{message}"'
                    for speaker, message in messages.items()
                    if message and speaker != agent
                )
                seen["text"] = self.text_view.describe(agent, seen)
        return observations
