"""Difference rewards and COMA's counterfactual advantages, from replays of a round's games."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from srl_train.advantages.credit.assignment import Assignment, by_agent
from srl_train.advantages.credit.comparison import SCALE_FLOOR, compared_turns
from srl_train.data.trajectory import Trajectory

Values = list[list[float]]


def difference(scale: str) -> Assignment:
    """A_t = (D_t - mean of the group's D_t) / (deviation + 1e-4).

    D_t = G_t - G_t(default) is the difference reward (Wolpert and Tumer 2002): the shaped reward to
    go of the game as it was, less that of the game played again with the environment's default
    action in turn t and everybody's recorded actions otherwise. Compared as in `agent_turn`.
    """
    return _of_gains(lambda gains: compared_turns(gains, 0.0, scale))


def counterfactual(scale: str) -> Assignment:
    """A_t = (G_t - mean over a' of G_t(a')) / (root mean square + 1e-4).

    The counterfactual advantage of COMA (Foerster et al. 2018, eq. 4): the mean is over all legal
    actions of the agent in turn t, the taken one among them, the others' actions as they were.
    COMA weighs them by the policy and estimates G by a critic; here they weigh the same, and the
    game is played again. The baseline does not depend on the answer, so the group's mean is not
    taken off; the root mean square is of all the agent's turns in the group.
    """

    def scaled(gains: Sequence[Sequence[float]]) -> Values:
        flat = [gain for own in gains for gain in own]
        if scale == "none" or not any(flat):
            return [list(own) for own in gains]
        size = math.sqrt(math.fsum(gain * gain for gain in flat) / len(flat)) + SCALE_FLOOR
        return [[gain / size for gain in own] for own in gains]

    return _of_gains(scaled)


def _of_gains(advantages: Callable[[Sequence[Sequence[float]]], Values]) -> Assignment:
    return by_agent(lambda group, agent, _: advantages([_gains(game[agent]) for game in group]))


def _gains(trajectory: Trajectory) -> tuple[float, ...]:
    if trajectory.gains is None:
        raise ValueError(f"{trajectory.agent}'s game was not played again")
    return trajectory.gains
