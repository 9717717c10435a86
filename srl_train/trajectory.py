"""Trajectories: the steps of one agent in one episode, with rewards, advantages and returns."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from srl_agents.episode import AgentStep, End, Episode
from srl_agents.evaluation.episode_stats import environment_of
from srl_train.errors import TrainingError
from srl_train.modes import Rewards


@dataclass(frozen=True)
class Trajectory:
    """Steps of one agent in one episode, with training rewards and advantages in time order."""

    agent: str
    steps: tuple[AgentStep, ...]
    """All steps of the agent, with the environment's rewards."""
    shaped: tuple[float, ...]
    """Training reward of each step."""
    advantages: tuple[float, ...] | None = None
    """Advantage of each step. None leaves advantages to the learner; GRPO compares the episode
    returns of a group."""
    gains: tuple[float, ...] | None = None
    """Per step: reward-to-go minus that of replays with other actions; None without replays."""
    seed: int = 0
    """Environment seed of the episode; the episodes of a group share it."""
    environment: str = ""
    """Label of the environment in multitask_v0; empty for other environments."""
    end: End | None = None
    """End of the agent's episode, if known."""
    states: tuple[np.ndarray, ...] | None = None
    """Joint state of the environment before each step, if recorded."""


Game = Mapping[str, Trajectory]
"""One episode: agent to its trajectory. Agents act simultaneously. An agent that leaves early or
joins late has fewer steps."""


def shaped_game(
    episode: Episode,
    agents: Sequence[str],
    shape: Callable[[Rewards], Rewards],
    parse_penalty: float,
) -> Game:
    """Return agent to its trajectory, for each of `agents`, with training rewards.

    `shape` turns agent to raw rewards, which are NaN in steps before the agent joined, into
    training rewards. `parse_penalty` is then subtracted from the reward of each unparsable answer.
    Raises TrainingError if a raw reward is not finite.
    """
    steps = {agent: episode.steps_of(agent) for agent in agents}
    raw = {agent: [step.reward for step in taken] for agent, taken in steps.items()}
    for agent, rewards in raw.items():
        for turn, reward in enumerate(rewards):
            if not math.isfinite(reward):
                raise TrainingError(
                    f"rewards must be finite, got {reward} for {agent} in step {turn} "
                    f"of the episode with seed {episode.seed}"
                )
    joined: dict[str, int] = {}
    for number, acting in enumerate(episode.turns):
        for step in acting:
            joined.setdefault(step.agent, number)
    absent = {agent: [math.nan] * joined.get(agent, 0) for agent in agents}
    shaped = shape({agent: absent[agent] + rewards for agent, rewards in raw.items()})
    game: dict[str, Trajectory] = {}
    for agent, taken in steps.items():
        failed = [step.decision.parse_failure is not None for step in taken]
        rewards = [
            reward - parse_penalty if unread else reward
            for reward, unread in zip(shaped[agent][len(absent[agent]) :], failed, strict=True)
        ]
        states = None
        if episode.states is not None:
            turns = zip(episode.states, episode.turns, strict=True)
            states = tuple(s for s, turn in turns if any(step.agent == agent for step in turn))
        game[agent] = Trajectory(
            agent,
            taken,
            tuple(rewards),
            seed=episode.seed,
            environment=environment_of(episode) or "",
            end=episode.ends.get(agent),
            states=states,
        )
    return game


def rewards_to_go(rewards_T: Sequence[float] | NDArray[np.float64], discount: float) -> list[float]:
    """Return sum over k >= t of discount**(k - t) * rewards_T[k], for each step t, as a list."""
    found: list[float] = []
    total = 0.0
    for reward in reversed(rewards_T):
        total = float(reward) + discount * total
        found.append(total)
    return found[::-1]


def discounted_return(rewards_T: Sequence[float] | NDArray[np.float64], discount: float) -> float:
    """Return sum over t of discount**t * rewards_T[t], t from 0; 0.0 without rewards."""
    return next(iter(rewards_to_go(rewards_T, discount)), 0.0)
