"""Environments of one agent that writes: reset and step in messages, and as a PettingZoo game."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Self

import numpy as np

from mrlm.core.types import Message, Observation, Reward
from mrlm.core.written_game import WrittenGame
from srl_envs.errors import EnvConfigError


class EnvironmentMode(StrEnum):
    """Whether the model in an environment learns."""

    SERVER = "server"
    """It is trained."""
    CLIENT = "client"
    """It stays as it is, or there is none."""


class SimulatedEnvironment(ABC):
    """An environment whose rules are a program: define `reset` and `step`.

    What is random is drawn from `self.rng`, so that an episode can be played again from its seed;
    GRPO compares answers to one and the same start. `max_turns` ends an episode that `done` does
    not. Trainers play copies of the object, one for each episode under way.
    """

    mode = EnvironmentMode.CLIENT
    max_turns: int = 16

    @abstractmethod
    def reset(self) -> Observation:
        """Start an episode: what the agent is told first."""

    @abstractmethod
    def step(self, action: Message) -> tuple[Observation, Reward]:
        """The agent's answer: what it is told next, and what the answer earned."""

    def sample_answers(self, rng: np.random.Generator, count: int) -> Sequence[str]:
        """Answers in the right form that say nothing of the truth: what the embedded model, 'tiny',
        learns to write with. None by default, and then another model has to be trained."""
        return ()

    @property
    def rng(self) -> np.random.Generator:
        """The episode's randomness."""
        generator: np.random.Generator = self.__dict__.setdefault("_rng", np.random.default_rng())
        return generator

    def seed(self, seed: int) -> None:
        """Begin the randomness anew: the same seed gives the same next episode."""
        self._rng = np.random.default_rng(seed)

    def copy(self) -> SimulatedEnvironment:
        """Another environment by the same settings."""
        return copy.deepcopy(self)

    def parallel_env(self) -> Any:
        """A game of its own by the same settings, as a PettingZoo ParallelEnv of one agent."""
        return WrittenGame(self.copy())

    def close(self) -> None:  # noqa: B027  # most hold nothing
        """Let go of what the environment holds."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


def frozen_only(mode: EnvironmentMode | str) -> None:
    """Raise EnvConfigError where an environment without a model is to be trained."""
    if EnvironmentMode(mode) is not EnvironmentMode.CLIENT:
        raise EnvConfigError(
            f"mode: got {str(mode)!r}, and nothing in this environment learns: leave it at 'client'"
        )
