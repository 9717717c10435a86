"""A game that goes on for ever, and is cut off, ended, or both at once."""

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

from srl_envs.wrappers import with_text


class Endless(ParallelEnv):
    """Every step pays 1. `cut` and `over` say after how many turns a seat is truncated or
    terminated; without `cut`, all are truncated after 1 to 4 turns, which the seed draws.

    Nothing that is observed tells the time.
    """

    metadata = {"name": "endless_v0"}  # noqa: RUF012

    def __init__(self, seats=("a",), cut=None, over=None):
        self.possible_agents = list(seats)
        self.given, self.over = cut, over or {}
        self.observation_spaces = dict.fromkeys(seats, spaces.Discrete(3))
        self.action_spaces = dict.fromkeys(seats, spaces.Discrete(2))

    def observation_space(self, agent):
        return self.observation_spaces[agent]

    def action_space(self, agent):
        return self.action_spaces[agent]

    def reset(self, seed=None, options=None):
        self.agents, self.turn = list(self.possible_agents), 0
        drawn = int(np.random.default_rng(seed).integers(1, 5))
        self.cut = self.given or dict.fromkeys(self.agents, drawn)
        return dict.fromkeys(self.agents, 1), {agent: {} for agent in self.agents}

    def step(self, actions):
        self.turn += 1
        seats = list(self.agents)
        over = {agent: self.turn == self.over.get(agent) for agent in seats}
        cut = {agent: self.turn == self.cut.get(agent) for agent in seats}
        self.agents = [agent for agent in seats if not (over[agent] or cut[agent])]
        return dict.fromkeys(seats, 1), dict.fromkeys(seats, 1.0), over, cut, {a: {} for a in seats}

    def state(self):
        return np.array([1.0, 0.5], np.float32)


def endless(*args, tells_time=False, **kwargs):
    """The game in words."""
    return with_text(
        Endless(*args, **kwargs),
        rules="Go on.",
        answers=("yes", "no"),
        describe=lambda agent, seen: "And now?",
        tells_time=tells_time,
    )
