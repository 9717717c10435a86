"""Cheap talk: messages in addition to actions, and rewards for keywords.

Both read the answer of an action that is a srl_envs.text.TextAction.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from gymnasium import spaces

from srl_envs.errors import EnvConfigError, EnvError
from srl_envs.games import base
from srl_envs.text import TEXT_LENGTH, TextAction, TextSpace
from srl_envs.validation import Reset, Step, true_or_false

MESSAGE_LENGTH = 120  # characters of a message
MESSAGE_RULE = "What you write above the last line is read by all others."
SAYS = ' says: "'


def message_in(answer: str) -> str:
    """Return the text above an answer's last line, as one line of at most MESSAGE_LENGTH.

    Line breaks and control characters become spaces, and double quotes become single quotes, so
    that a message cannot imitate other text.
    """
    lines = answer.strip().splitlines()
    words = "".join(c if c.isprintable() else " " for c in " ".join(lines[:-1]))
    words = words.replace('"', "'").replace("\N{FULLWIDTH QUOTATION MARK}", "'")
    return " ".join(words.split())[:MESSAGE_LENGTH].rstrip()


def heard(observation: Any) -> str:
    """Return the messages in an observation as text, each on a new line."""
    messages = observation.get("messages", "") if isinstance(observation, Mapping) else ""
    return "".join(f"\n{line}" for line in messages.splitlines())


def spoken(observation: Any) -> list[tuple[str, str]]:
    """Return the messages in an observation as pairs (name of the agent, message)."""
    messages = observation.get("messages") if isinstance(observation, Mapping) else None
    lines = messages.splitlines() if isinstance(messages, str) else []
    parts = [line.partition(SAYS) for line in lines if line.endswith('"')]
    return [(speaker, words[:-1]) for speaker, says, words in parts if says]


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
        self._said: dict[str, str] = {}
        super().__init__(*game, **settings)
        if messages and self.obs_mode != "llm":
            raise EnvConfigError(f"obs_mode must be 'llm' with messages, got {self.obs_mode!r}")

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        self._said = {}
        return super().reset(seed, options)

    def step(self, actions: Mapping[str, Any]) -> Step:
        if not (self.messages or self.keyword_rewards):
            return super().step(actions)
        words = {}
        if isinstance(actions, Mapping):  # The base class refuses other types.
            words = {a: act.text for a, act in actions.items() if isinstance(act, TextAction)}
        before, self._said = self._said, {}
        if self.messages:
            said = {agent: message_in(text) for agent, text in words.items()}
            self._said = {agent: message for agent, message in said.items() if message}
        try:
            outcome = super().step(actions)
        except EnvError:
            self._said = before
            raise
        if self.keyword_rewards:
            _, rewards, _, _, infos = outcome
            for agent, info in infos.items():
                info["game_reward"] = rewards[agent]
                if agent in words:
                    rewards[agent] = keyword_reward(self.scenario, words[agent])
        return outcome

    def _space_of(self, vector: spaces.Box) -> spaces.Space[Any]:
        space = super()._space_of(vector)
        if self.messages and isinstance(space, spaces.Dict):
            return spaces.Dict({**space.spaces, "messages": TextSpace(TEXT_LENGTH)})
        return space

    def _observations(self, vectors: dict[str, np.ndarray]) -> dict[str, Any]:
        observations = super()._observations(vectors)
        if self.messages:
            for agent, seen in observations.items():
                seen["messages"] = "\n".join(
                    f'{speaker}{SAYS}{message}"'
                    for speaker, message in self._said.items()
                    if speaker != agent
                )
                seen["text"] = self.text_view.describe(agent, seen)
        return observations
