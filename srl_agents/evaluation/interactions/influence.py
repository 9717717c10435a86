"""Counterfactual influence of actions on the other agents' rewards, by playing turns again.

For agent i with action a in turn t, the other agents' actions and the game's chance as they were,
the immediate effect on j is

    r_j(a, a_-i) - mean of r_j(a', a_-i) over i's other legal actions a'

as in difference rewards (Wolpert and Tumer 2002, "Optimal payoff functions for members of
collectives") with another agent's reward in place of the team's, and the default action replaced
by the mean over actions as in COMA's baseline (Foerster et al. 2018, eq. 4). Positive: i helped j.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from srl_agents.episode import Episode
from srl_agents.evaluation.counterfactuals import Turn, Watched, played_instead
from srl_agents.evaluation.interactions.graph import Pair
from srl_agents.evaluation.replay import SAME, replay

ALTERNATIVES = 3
"""Other actions that are tried at most in an agent's turn, drawn at random where more are legal."""
TURNS = 12
"""Turns of a game in which others are tried at most, drawn at random where there are more."""


def effects(episode: Episode, env: Any, rng: np.random.Generator) -> dict[Pair, float]:
    """(i, j) -> the mean over i's turns of its immediate effect on j, in reward units.

    `env` is the episode's environment, made anew, and can be deep-copied. Turns in which i had one
    action only are left out, and so are pairs without any other turn. Raises EpisodeError as
    `replay`, and EnvError where the environment cannot be copied.
    """
    watched = Watched(env)
    count = len(episode.turns)
    tried = set(rng.choice(count, TURNS, replace=False).tolist() if count > TURNS else range(count))
    found: dict[Pair, list[float]] = {}
    shown = replay(episode, watched)
    for number, turn in enumerate(episode.turns):
        next(shown)  # plays the turn before, and compares it with the record
        if {step.agent for step in turn} != set(watched.agents):
            break  # which replay tells below
        if number not in tried:
            continue
        for step in turn:
            others = watched.others(step) if step.decision.asked else []
            if len(others) > ALTERNATIVES:
                others = sorted(rng.choice(others, ALTERNATIVES, replace=False).tolist())
            if not others:
                continue
            instead = [_rewards(watched, turn, step.agent, action) for action in others]
            for other in turn:
                if other.agent != step.agent:
                    mean = sum(rewards[other.agent] for rewards in instead) / len(instead)
                    same = math.isclose(other.reward, mean, rel_tol=SAME, abs_tol=SAME)
                    effect = 0.0 if same else other.reward - mean
                    found.setdefault((step.agent, other.agent), []).append(effect)
    for _ in shown:
        pass
    return {pair: sum(own) / len(own) for pair, own in found.items()}


def _rewards(watched: Watched, turn: Turn, agent: str, action: int) -> dict[str, float]:
    """What the turn would have paid, had the agent done `action` (and said the same words)."""
    [instead] = played_instead(watched, [turn], agent, action)
    return {step.agent: step.reward for step in instead}
