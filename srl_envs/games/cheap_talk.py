"""Cheap talk: messages, which are part of the answer of a srl_envs.text.TextAction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from srl_envs.errors import EnvConfigError
from srl_envs.games import base
from srl_envs.text import TEXT_LENGTH, TextAction, TextSpace
from srl_envs.validation import true_or_false

MESSAGE_LENGTH = 120  # characters of a message
MESSAGE_RULE = "What you write above the last line is read by all others."


def message_in(answer: str) -> str:
    """Return the text above an answer's last line as one line, "" if there is none.

    The text is cut to MESSAGE_LENGTH characters. Runs of spaces, line breaks and control characters
    become one space, double quotes single ones, so that a message cannot imitate other text.
    """
    lines = answer.strip().splitlines()
    words = "".join(c if c.isprintable() else " " for c in " ".join(lines[:-1]))
    words = words.replace('"', "'").replace("\N{FULLWIDTH QUOTATION MARK}", "'")
    return " ".join(words.split())[:MESSAGE_LENGTH].rstrip()


def message_lines(observation: Any) -> str:
    """Return an observation's "messages" as text, each after a line break; "" without any."""
    if not isinstance(observation, Mapping):
        return ""
    return "".join(f"\n{line}" for line in observation.get("messages", "").splitlines())


class TalkingGame(base.SimultaneousGame):
    """Game whose agents may send messages.

    With `messages`, which requires obs_mode "llm" (else EnvConfigError), the text above the last
    line of an answer is part of the next observation of all other agents, under "messages" and in
    "text".
    """

    def __init__(self, *game: Any, messages: bool, **settings: Any) -> None:
        self.messages = true_or_false("messages", messages)
        self._texts: dict[str, str] = {}  # answers of the last round, by agent
        super().__init__(*game, **settings)
        if messages and self.obs_mode != "llm":
            raise EnvConfigError(f"obs_mode must be 'llm' with messages, got {self.obs_mode!r}")

    def begin(self, options: Mapping[str, Any]) -> None:
        self._texts = {}
        super().begin(options)

    def _chosen(self, actions: Mapping[str, Any]) -> list[int]:
        chosen = super()._chosen(actions)
        if self.messages:
            texts = ((a, act.text) for a, act in actions.items() if isinstance(act, TextAction))
            self._texts = dict(texts)
        return chosen

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
