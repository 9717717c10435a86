"""Parts of group-relative advantages: returns, baselines and normalization, in float64."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from srl_train.advantages.credit.assignment import Advantages, Group, environment_of
from srl_train.advantages.returns import discounted_return, rewards_to_go

SCALE_FLOOR = 1e-4  # added to deviations, as TRL does
Scores = Mapping[str, Mapping[int, float]]
"""Agent -> number of a game in its group -> one number for the whole game."""


def compared(values: Sequence[float], scale: str) -> list[float]:
    """Each value less the mean of all; with `scale` "group" over their deviation + SCALE_FLOOR.

    The deviation is the sample's (n - 1), as in TRL's GRPOTrainer. Equal values, and a single one,
    give exact zeros.
    """
    if len(set(values)) < 2:
        return [0.0] * len(values)
    mean = math.fsum(values) / len(values)
    apart = [value - mean for value in values]
    if scale == "none":
        return apart
    deviation = math.sqrt(math.fsum(gap * gap for gap in apart) / (len(values) - 1))
    return [gap / (deviation + SCALE_FLOOR) for gap in apart]


def game_returns(group: Group, agent: str, discount: float) -> dict[int, float]:
    """Number of the game -> the agent's return, for the games in which it had a turn."""
    return {
        number: discounted_return(game[agent].shaped, discount)
        for number, game in enumerate(group)
        if game[agent].steps
    }


def compared_games(returns: Mapping[int, float], scale: str) -> dict[int, float]:
    """The same with every return compared with all of them."""
    return dict(zip(returns, compared(list(returns.values()), scale), strict=True))


def across_groups(
    groups: Sequence[Group], returns: Sequence[Mapping[int, float]], scale: str
) -> list[dict[int, float]]:
    """Each return compared with those of all groups, where several environments are played of the
    same one: per group, number of the game -> one number."""
    alike: dict[str, list[tuple[int, int]]] = {}
    for index, (group, own) in enumerate(zip(groups, returns, strict=True)):
        for number in own:
            alike.setdefault(environment_of(group[number]), []).append((index, number))
    found: list[dict[int, float]] = [{} for _ in returns]
    for places in alike.values():
        values = compared([returns[index][number] for index, number in places], scale)
        for (index, number), value in zip(places, values, strict=True):
            found[index][number] = value
    return found


def on_all_turns(group: Group, scores: Scores) -> Advantages:
    """Advantages in which all turns of an agent's game share its score."""
    return [
        {agent: [own[number]] * len(game[agent].steps) if number in own else []
         for agent, own in scores.items()}
        for number, game in enumerate(group)
    ]  # fmt: skip


def compared_turns(
    rewards_GT: Sequence[Sequence[float]], discount: float, scale: str
) -> list[list[float]]:
    """Per game and turn: the reward to go less its mean over the games that have that turn.

    With `scale` "group" all turns are divided by one deviation + SCALE_FLOOR, that of what is left
    over all turns (a turn that n games have counts with n - 1 degrees of freedom). A deviation of
    each turn's own would be that of a handful of games where most are over, and would give the two
    that are left +-.71 whatever lies between them.
    """
    to_go = [rewards_to_go(rewards, discount) for rewards in rewards_GT]
    advantages: list[list[float]] = [[] for _ in to_go]
    freedom = 0
    for turn in range(max(map(len, to_go), default=0)):
        there = [number for number, own in enumerate(to_go) if turn < len(own)]
        freedom += len(there) - 1
        for number, value in zip(
            there, compared([to_go[number][turn] for number in there], "none"), strict=True
        ):
            advantages[number].append(value)
    if scale == "none" or not freedom:
        return advantages
    squares = math.fsum(value * value for own in advantages for value in own)
    deviation = math.sqrt(squares / freedom) + SCALE_FLOOR
    return [[value / deviation for value in own] for own in advantages]
