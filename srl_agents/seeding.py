"""Random streams, derived by name from one seed.

A stream is identified by the numbers given to numpy's SeedSequence next to the seed.
SeedSequence pads with zeros, so the layouts that recorded results depend on (`kept`) are
distinct only for rounds below MOST_ROUNDS. All other streams have a spawn key, which makes them
distinct by construction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np


class Stream(NamedTuple):
    """Layout of a stream: fixed numbers, and names of indices."""

    words: tuple[str | int, ...]
    kept: bool = False
    """True if the words follow the seed as entropy, False for a spawn key."""

    @property
    def indices(self) -> tuple[str, ...]:
        return tuple(word for word in self.words if isinstance(word, str))


STREAMS: Mapping[str, Stream] = {
    # Seeds of environments and of policies, one stream each:
    "round": Stream(("round",), kept=True),
    "evaluation": Stream((7_919, "episodes"), kept=True),
    "scenario": Stream((104_729,), kept=True),
    "stage": Stream(("stage", 104_729), kept=True),
    "collecting": Stream((1,)),
    "trl_rollout": Stream((2, "step", "call")),
    # Opponents of a round, apart from the games, which stay the same for all opponents.
    "opponents": Stream((3, "round")),
    # What an update's optimizer steps start from; the updates of a stage are counted from
    # STAGE_UPDATES, to which no round comes.
    "update": Stream(("round", "model", "update_index"), kept=True),
    # Games of cross-play, and the order in which ratings take their matches.
    "cross_play": Stream((4,)),
    "rating": Stream((5,)),
    # Which other actions are tried where credit is assigned by playing games again.
    "credit": Stream((7, "round")),
    # Who plays a group of games, and in which order models meet over a cycle of groups.
    "matchmaking": Stream((8, "group")),
    "round_robin": Stream((9, "cycle")),
    # Games among the snapshots of an opponent pool.
    "pool_games": Stream((11, "round")),
    # Resampling for confidence intervals.
    "bootstrap": Stream((15_485_863,), kept=True),
}

MOST_ROUNDS = 104_729
"""Largest number of rounds: the next stream would be that of scenarios."""
STAGE_UPDATES = 2**31
MOST = 2**32 - 1
"""Largest seed and index, one word."""

_BETWEEN_PROCESSES = 1_000_003


def sequence(seed: int, name: str, *indices: int) -> np.random.SeedSequence:
    """Return the seed sequence of a stream; raise ValueError for numbers outside 0 to MOST."""
    stream = STREAMS[name]
    given = dict(zip(stream.indices, indices, strict=True))
    for what, value in (("seed", seed), *given.items()):
        if not 0 <= value <= MOST:
            raise ValueError(f"{what} is {value}: give 0 to {MOST}")
    words = [given[word] if isinstance(word, str) else word for word in stream.words]
    if stream.kept:
        return np.random.SeedSequence([seed, *words])
    return np.random.SeedSequence(seed, spawn_key=words)


def generator(seed: int, name: str, *indices: int) -> np.random.Generator:
    """Return the generator of a stream. Raises as `sequence` does."""
    return np.random.default_rng(sequence(seed, name, *indices))


def of_update(seed: int, round_number: int, model: int, update_index: int) -> int:
    """Return the 32-bit seed of an update. Raises as `sequence` does."""
    start = sequence(seed, "update", round_number, model, update_index)
    return int(start.generate_state(1, np.uint32)[0])


def of_step(update: int, step: int, process: int) -> int:
    """Return the seed of an optimizer step in one of the processes."""
    return update + step + _BETWEEN_PROCESSES * process


def of_games(
    draws: np.random.Generator, games: int, group_size: int = 1
) -> tuple[list[int], list[int]]:
    """Return (environment seeds, policy seeds); `group_size` episodes in a row share a start."""
    starts = draws.integers(2**31, size=-(-games // group_size)).tolist()
    policies = draws.integers(2**63, size=games).tolist()
    return [start for start in starts for _ in range(group_size)][:games], policies


def of_agents(policy_seed: int, count: int) -> list[int]:
    """Return the seeds of an episode's agents."""
    return [
        int(own) for own in np.random.SeedSequence(policy_seed).generate_state(count, np.uint64)
    ]


def of_mixture(agent_seed: int) -> np.random.Generator:
    """Return the generator that draws from a mixture."""
    return np.random.default_rng(np.random.SeedSequence(agent_seed, spawn_key=(0,)))


def of_branches(policy_seed: int, turn: int, count: int) -> list[int]:
    """Return the seeds of an episode's branches at one turn."""
    start = np.random.SeedSequence(policy_seed, spawn_key=(turn,))
    return [int(own) for own in start.generate_state(count, np.uint64)]
