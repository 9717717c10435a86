"""Division of a number of games into rounds: how many lie between two updates, how many fit."""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

from srl_train.errors import ConfigError

LARGEST_GROUP = 16  # games; more say little more about which of them went better


class Rounds(NamedTuple):
    """How a run's games are divided."""

    number: int
    """Rounds in all, each with an update at its end."""
    games: int
    """Of a round."""
    group: int
    """Games of a round that are compared with one another; it divides `games`."""
    told: tuple[str, ...]
    """What differs from the settings, in words."""


def rounds_of(max_episodes: int, update_frequency: int) -> Rounds:
    """The whole rounds of `update_frequency` games that `max_episodes` games have room for; one
    smaller round where there is none. One game has nothing to be compared with: two are played.

    Raises ConfigError where games cannot be divided into groups.
    """
    if largest_group(update_frequency) is None:
        raise ConfigError(
            f"update_frequency is {update_frequency}: games are compared in groups of 2 to "
            f"{LARGEST_GROUP}, and none of these divides it; try {update_frequency + 1}"
        )
    games = min(update_frequency, max(max_episodes, 2))
    while (group := largest_group(games)) is None:
        games -= 1
    number = max(1, max_episodes // games)
    told = []
    if max_episodes == 1:
        told.append("max_episodes is 1: 2 games are played, for one has none to be compared with")
    elif games < update_frequency:
        told.append(
            f"update_frequency is {update_frequency} and max_episodes {max_episodes}: the models "
            f"update once, after {games} games"
        )
    elif number * games < max_episodes:
        told.append(
            f"max_episodes is {max_episodes}: {number * games} games are played, for the models "
            f"update after every {games} (update_frequency)"
        )
    return Rounds(number, games, group, tuple(told))


def largest_group(games: int) -> int | None:
    """The largest size of groups, 2 to LARGEST_GROUP, that divides so many games; None: there is
    none."""
    return max((d for d in range(2, LARGEST_GROUP + 1) if games % d == 0), default=None)


def minibatches(samples: int, batch_size: int, group: int) -> int:
    """The fewest parts of at most batch_size samples, that divide a group: so they still divide
    what is left of a round's samples where other groups failed.

    Raises ConfigError where no number of parts does.
    """
    for parts in range(1, group + 1):
        if group % parts == 0 and samples <= parts * batch_size:
            return parts
    raise ConfigError(
        f"batch_size is {batch_size}: the {samples} samples that a model brings per round are "
        f"split into {group} steps at most; give {ceil(samples / group)} or more, or play fewer "
        "games per round (update_frequency)"
    )
