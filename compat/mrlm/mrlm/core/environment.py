"""Base class of environments with one agent that reads and writes messages."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from enum import StrEnum

import numpy as np

from mrlm.core.types import Message, Observation, Reward


class EnvironmentMode(StrEnum):
    """Learning mode of an environment's model."""

    SERVER = "server"
    """The weights are trained."""
    CLIENT = "client"
    """The weights are frozen, or there is no model."""


class SimulatedEnvironment(ABC):
    """Environment whose rules are a program: subclasses define `reset` and `step`.

    Draw all randomness from `self.rng`, so that an episode can be repeated from its seed. Trainers
    play copies of the environment, which they seed before every episode.
    """

    mode = EnvironmentMode.CLIENT
    max_turns: int = 16
    """Number of steps after which trainers truncate an episode."""

    @abstractmethod
    def reset(self) -> Observation:
        """Start a new episode and return its first observation."""

    @abstractmethod
    def step(self, action: Message) -> tuple[Observation, Reward]:
        """Apply the agent's answer `action`; return the next observation and the reward."""

    @property
    def rng(self) -> np.random.Generator:
        """Random generator of the environment; without `seed`, its seed is random."""
        generator: np.random.Generator = self.__dict__.setdefault("_rng", np.random.default_rng())
        return generator

    def seed(self, seed: int) -> None:
        """Replace the random generator; equal seeds (0 or more) give equal random numbers."""
        self._rng = np.random.default_rng(seed)

    def copy(self) -> SimulatedEnvironment:
        """Return an independent copy, by default a deep copy with the same state of `rng`."""
        return copy.deepcopy(self)

    def close(self) -> None:  # noqa: B027  # most environments hold no resources
        """Release the environment's resources; do nothing unless overridden."""
