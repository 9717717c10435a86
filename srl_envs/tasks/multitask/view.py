"""Text view of the multitask environment, by the rules of the one in play."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from srl_envs.games.base import vector_of
from srl_envs.tasks.free_text_game import readable_text
from srl_envs.text import ParseFailure, TextView


@dataclass(frozen=True)
class MultitaskView:
    """Text view of the multitask environment. The observation says which one is in play."""

    views: tuple[tuple[str, TextView, int], ...]
    """(label, the environment's view, length of its observation vector), in order."""

    @property
    def default_action(self) -> Any:
        """Played in place of an answer that could not be read, the same in all of them."""
        return self.views[0][1].default_action

    @property
    def parse_penalty(self) -> float:
        """What such an answer costs, the same in all of them."""
        return self.views[0][1].parse_penalty

    def of_observation(self, observation: Any) -> TextView:
        """The view of the environment that an observation is from (see
        srl_envs.text.view_for); to describe it, it wants its own part of the vector."""
        return self._on(observation)[0]

    def rules(self, agent: str) -> str:
        """The rules of all of them; an agent is told those of the one that is on."""
        told = [f"{label}: {view.rules(agent)}" for label, view, _ in self.views]
        return "Every episode is one of these.\n" + "\n".join(told)

    def describe(self, agent: str, observation: Any) -> str:
        """The agent's situation in the environment that is on."""
        view, length = self._on(observation)
        own = vector_of(observation)[:length]
        if isinstance(observation, Mapping):
            return view.describe(agent, {**observation, "observation": own})
        return view.describe(agent, own)

    def answers(self, agent: str) -> tuple[str, ...]:
        """The legal answers, the same in all of them."""
        return self.views[0][1].answers(agent)

    def parse(self, agent: str, answer: str) -> Any | ParseFailure:
        """As the first reads choices; texts as they are, which each reads in its own way."""
        if self.answers(agent):
            return self.views[0][1].parse(agent, answer)
        return readable_text(answer)

    def _on(self, observation: Any) -> tuple[TextView, int]:
        """The view of the environment that is on, and the length of its part of the vector."""
        _, view, length = self.views[int(np.argmax(vector_of(observation)[-len(self.views) :]))]
        return view, length
