"""An endless environment, whose agents are truncated or terminated."""

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

from srl_envs.wrappers import with_text


class Endless(ParallelEnv):
    """Environment that pays 1 per step and does not show the time.

    `cut` and `over` map agents to the step at which they are truncated or terminated; without
    `cut`, all are truncated after 1 to 4 steps, drawn from the seed.
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
    """Return the environment with a text view."""
    return with_text(
        Endless(*args, **kwargs),
        rules="Go on.",
        answers=("yes", "no"),
        describe=lambda agent, seen: "And now?",
        tells_time=tells_time,
    )
