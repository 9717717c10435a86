"""Trajectories of an episode with the rewards that are trained on."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from srl_agents.episode import Episode
from srl_agents.evaluation.episode_stats import environment_of
from srl_train.data.trajectory import Game, Trajectory
from srl_train.errors import TrainingError
from srl_train.modes import Rewards


def shaped_game(
    episode: Episode,
    agents: Sequence[str],
    shape: Callable[[Rewards], Rewards],
    parse_penalty: float,
) -> Game:
    """Agent -> its trajectory, with the shaped rewards less the penalties for unread answers.

    Penalties are taken off after shaping: a bad answer costs the agent that gave it, whatever the
    mode. Raises TrainingError for a raw reward that is not finite: TRL would pass over it unseen.
    """
    steps = {agent: episode.steps_of(agent) for agent in agents}
    raw = {agent: [step.reward for step in own] for agent, own in steps.items()}
    for agent, rewards in raw.items():
        for turn, reward in enumerate(rewards):
            if not math.isfinite(reward):
                raise TrainingError(
                    f"{agent} was paid {reward} in turn {turn} of the game from seed "
                    f"{episode.seed}: rewards must be finite numbers, look at the environment"
                )
    shaped = shape(raw)
    environment = environment_of(episode) or ""
    return {
        agent: Trajectory(
            agent,
            own,
            tuple(
                reward - parse_penalty if step.decision.parse_failure is not None else reward
                for reward, step in zip(shaped[agent], own, strict=True)
            ),
            seed=episode.seed,
            environment=environment,
            end=episode.ends.get(agent),
            states=None if episode.states is None else tuple(
                before
                for before, turn in zip(episode.states, episode.turns, strict=True)
                if any(step.agent == agent for step in turn)
            ),
        )
        for agent, own in steps.items()
    }  # fmt: skip
