"""Trajectory: one agent's turns in one episode, with rewards and advantages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from srl_agents.episode import AgentStep, End


@dataclass(frozen=True)
class Trajectory:
    """Made once from an episode by `estimate.shaped_game`; credit adds the advantages."""

    agent: str
    steps: tuple[AgentStep, ...]
    """All its turns, asked or not; the environment's own rewards are theirs."""
    shaped: tuple[float, ...]
    """Of each turn, the reward that is trained on."""
    advantages: tuple[float, ...] | None = None
    """Of each turn, where credit was assigned; None leaves them to the learner, which compares the
    episode returns of a group (GRPO) or has a critic (PPO)."""
    gains: tuple[float, ...] | None = None
    """Of each turn, what the answer gained against others in its place, where the game was played
    again with them (srl_train.advantages.replays); None where it was not."""
    seed: int = 0
    """The episode's: those of one group share it."""
    environment: str = ""
    """Which of several environments was played; empty where there is one only."""
    end: End | None = None
    """How its part ended; None where it did not."""
    states: tuple[np.ndarray, ...] | None = None
    """The environment's joint state before each of `steps`, where the episode recorded it."""

    def __post_init__(self) -> None:
        for what, values in (("rewards", self.shaped), ("gains", self.gains),
                             ("advantages", self.advantages)):  # fmt: skip
            if values is not None and len(values) != len(self.steps):
                raise ValueError(
                    f"{self.agent} has {len(self.steps)} turns and {len(values)} {what}"
                )

    @cached_property
    def actions(self) -> tuple[int | str, ...]:
        """Of each turn, the choice's number, or the text where whatever is written is one."""
        chosen = (step.decision.action for step in self.steps)
        return tuple(one if isinstance(one, str) else int(one) for one in chosen)


Game = Mapping[str, Trajectory]
"""One episode: agent -> its trajectory. All agents choose at once, so an agent's turn number t is
every agent's turn t; one that leaves early has fewer of them."""
