"""An environment of two steps whose rewards can be computed by hand."""

from typing import ClassVar

import numpy as np
from gymnasium.spaces import Discrete

from srl_envs.text import FixedChoices


class View(FixedChoices):
    """Text view with three answers; the first is the default."""

    choices: ClassVar = ("zero", "one", "two")
    default_action = 0
    parse_penalty = 0.25

    def rules(self, agent):
        return "Pick a number."

    def describe(self, agent, observation):
        return f"Turn {observation}."


class CarryGame:
    """Environment in which agents a and b choose 0, 1 or 2.

    The reward is twice the own number, minus the other's, plus the last number of a. After a
    chooses 2, b may choose only 0 and 1.
    """

    metadata: ClassVar = {"name": "carry"}
    possible_agents: ClassVar = ["a", "b"]
    text_view = View()
    teams = None

    def __init__(self):
        self.agents = []

    @property
    def unwrapped(self):
        return self

    def action_space(self, agent):
        return Discrete(3)

    def close(self):
        pass

    def reset(self, seed=None, options=None):
        self.agents, self.turn, self.carried = ["a", "b"], 0, 0
        self.rng = np.random.default_rng(seed)
        return self.said()

    def step(self, actions):
        a, b = int(actions["a"]), int(actions["b"])
        assert self.carried < 2 or b < 2, "b may not pick 2 now"
        paid = {"a": 2.0 * a - b + self.carried, "b": 2.0 * b - a + self.carried}
        self.turn, self.carried = self.turn + 1, a
        over = self.turn == 2
        observations, infos = self.said()
        if over:
            self.agents = []
        ends = dict.fromkeys(paid, over)
        return observations, paid, ends, dict.fromkeys(paid, False), infos

    def said(self):
        masks = {"a": np.ones(3, np.int8), "b": np.ones(3, np.int8)}
        masks["b"][2] = self.carried < 2
        return dict.fromkeys("ab", self.turn), {a: {"action_mask": m} for a, m in masks.items()}
