"""Three players take one or two of a few sticks in turn; whoever takes the last one wins.

A game as others write them (PettingZoo's AEC), where passes, forced moves and players without a
turn are frequent.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv
from pettingzoo.utils import AgentSelector

from srl_envs.wrappers import GameWithText, with_text

PLAYERS = ("player_0", "player_1", "player_2")


class Sticks(AECEnv):  # type: ignore[misc]  # PettingZoo ships no types
    """The game; an agent observes how many are left, and what it may do."""

    metadata: ClassVar[dict[str, Any]] = {"name": "sticks_v0", "is_parallelizable": False}
    render_mode = None

    def __init__(self, sticks: int) -> None:
        self.possible_agents = list(PLAYERS)
        self._sticks = self.left = sticks
        space = {
            "observation": spaces.Discrete(sticks + 1),
            "action_mask": spaces.Box(0, 1, (2,), np.int8),
        }
        self._space, self._action = spaces.Dict(space), spaces.Discrete(2)

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """The same for all."""
        return self._space

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """One stick, or two."""
        return self._action

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """All sticks are there; nothing is drawn."""
        self.agents, self.left = list(PLAYERS), self._sticks
        self.rewards = dict.fromkeys(self.agents, 0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos: dict[str, dict[str, Any]] = {agent: {} for agent in self.agents}
        self._turns = AgentSelector(self.agents)
        self.agent_selection = self._turns.next()

    def observe(self, agent: str) -> dict[str, Any]:
        """How many are left, and the mask."""
        legal = [agent == self.agent_selection and self.left >= taken for taken in (1, 2)]
        return {"observation": self.left, "action_mask": np.array(legal, np.int8)}

    def step(self, action: int | None) -> None:
        """The player whose turn it is takes action + 1."""
        agent = self.agent_selection
        if self.terminations[agent] or action is None:
            self._was_dead_step(action)
            return
        self.left -= action + 1
        if self.left == 0:
            self.rewards = {other: 1 if other == agent else -1 for other in self.agents}
            self.terminations = dict.fromkeys(self.agents, True)
            self._accumulate_rewards()
        self.agent_selection = self._turns.next()


def game(sticks: int) -> GameWithText:
    """The game in words."""
    return with_text(
        Sticks(sticks), rules="Whoever takes the last stick wins.", answers=("one", "two")
    )
