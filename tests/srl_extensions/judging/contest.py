"""Test environment: of two agents, the one with the greater number wins a point."""

from __future__ import annotations

from typing import ClassVar

from gymnasium.spaces import Discrete
from pettingzoo import ParallelEnv

from srl_agents.episode import Decision
from srl_agents.policy import PerAgentPolicy
from srl_envs.errors import EnvError

MOST = 1000


class Contest(ParallelEnv):
    metadata: ClassVar = {"name": "contest"}

    def __init__(
        self, names_winner: bool = True, broken_for: int | None = None, left_bonus: float = 0.0
    ):
        self.possible_agents = ["left", "right"]
        self._left_bonus = left_bonus
        self._names_winner, self._broken_for = names_winner, broken_for
        self._space = Discrete(MOST)

    def observation_space(self, agent):
        return self._space

    def action_space(self, agent):
        return self._space

    def reset(self, seed=None, options=None):
        self.agents = list(self.possible_agents)
        return dict.fromkeys(self.agents, 0), {agent: {} for agent in self.agents}

    def step(self, actions):
        left, right = actions["left"], actions["right"]
        if self._broken_for in (left, right):
            raise EnvError("broken")
        lead = (left > right) - (left < right)
        winner = {1: "left", -1: "right", 0: "draw"}[lead]
        infos = {agent: {"winner": winner} if self._names_winner else {} for agent in self.agents}
        agents, self.agents = self.agents, []
        return (
            dict.fromkeys(agents, 0),
            {"left": lead + self._left_bonus, "right": float(-lead)},
            dict.fromkeys(agents, True),
            dict.fromkeys(agents, False),
            infos,
        )


class Number(PerAgentPolicy):
    """Policy that draws uniformly from `low` to `low + spread - 1`."""

    def __init__(self, low: int, spread: int = 1):
        self.low, self.spread = low, spread

    def decide(self, seen, state):
        return Decision(self.low + int(state.integers(self.spread)))


def players(**policies):
    """Return the policy of each player for both agents."""
    return {name: {"left": one, "right": one} for name, one in policies.items()}
