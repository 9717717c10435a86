"""Cheap talk: messages in addition to actions, and rewards for keywords.

Both read the answer of an action that is a srl_envs.text.TextAction.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from gymnasium import spaces

from srl_envs.errors import EnvConfigError
from srl_envs.games import base
from srl_envs.text import TEXT_LENGTH, TextAction, TextSpace
from srl_envs.validation import Step, true_or_false

MESSAGE_LENGTH = 120  # characters of a message
MESSAGE_RULE = "What you write above the last line is read by all others."


def message_in(answer: str) -> str:
    """Return the text above an answer's last line, as one line of at most MESSAGE_LENGTH.

    Line breaks and control characters become spaces, and double quotes become single quotes, so
    that a message cannot imitate other text.
    """
    lines = answer.strip().splitlines()
    words = "".join(c if c.isprintable() else " " for c in " ".join(lines[:-1]))
    words = words.replace('"', "'").replace("\N{FULLWIDTH QUOTATION MARK}", "'")
    return " ".join(words.split())[:MESSAGE_LENGTH].rstrip()


def message_lines(observation: Any) -> str:
    """Return the messages in an observation as text, each on a new line."""
    messages = observation.get("messages", "") if isinstance(observation, Mapping) else ""
    return "".join(f"\n{line}" for line in messages.splitlines())


KEYWORD_REWARDS: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {
        "trading": {"cooperate": 2.5, "trade": 2.5, "compete": 1.5},
        "negotiation": {"compromise": 3.0, "agree": 3.0, "insist": 1.3},
    }
)
"""Reward of an answer that contains a keyword, by scenario and keyword."""


def keyword_reward(scenario: str, answer: str) -> float:
    """Return the reward of the first keyword of the scenario in an answer, else 1.

    Keywords are found anywhere, also in other words: "I disagree" earns the reward for 'agree'.
    """
    words = answer.casefold()
    return next((pays for word, pays in KEYWORD_REWARDS[scenario].items() if word in words), 1.0)


class TalkingGame(base.SimultaneousGame):
    """Game whose agents may send messages and may earn rewards for keywords.

    With `messages`, the text above the last line of an answer is part of the next observation of
    all other agents, under "messages" and in "text". With `keyword_rewards`, a TextAction earns
    `keyword_reward(scenario, text)`, and `infos[agent]["game_reward"]` is the reward of the game.
    """

    scenario: str

    def __init__(self, *game: Any, messages: bool, keyword_rewards: bool, **settings: Any) -> None:
        self.messages = true_or_false("messages", messages)
        self.keyword_rewards = true_or_false("keyword_rewards", keyword_rewards)
        self._texts: dict[str, str] = {}  # answers of the last round, by agent
        super().__init__(*game, **settings)
        if messages and self.obs_mode != "llm":
            raise EnvConfigError(f"obs_mode must be 'llm' with messages, got {self.obs_mode!r}")

    def begin(self, options: Mapping[str, Any]) -> None:
        self._texts = {}
        super().begin(options)

    def step(self, actions: Mapping[str, Any]) -> Step:
        outcome = super().step(actions)
        if self.keyword_rewards:
            _, rewards, _, _, infos = outcome
            for agent, info in infos.items():
                info["game_reward"] = rewards[agent]
                if agent in self._texts:
                    rewards[agent] = keyword_reward(self.scenario, self._texts[agent])
        return outcome

    def _chosen(self, actions: Mapping[str, Any]) -> list[int]:
        chosen = super()._chosen(actions)
        if self.messages or self.keyword_rewards:
            texts = {a: act.text for a, act in actions.items() if isinstance(act, TextAction)}
            self._texts = texts
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
