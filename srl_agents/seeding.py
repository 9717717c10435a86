"""Random streams, derived by name from one seed.

A stream is identified by numbers that are passed to NumPy's SeedSequence together with the seed.
Most streams pass them as spawn key, which makes the streams distinct. The older layouts, on which
recorded results depend (KEPT), pass them as entropy, which SeedSequence pads with zeros; they are
distinct for rounds below MOST_ROUNDS.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

STREAMS: Mapping[str, tuple[str | int, ...]] = {
    # Seeds of environments and policies:
    "round": ("round",),
    "evaluation": (7_919, "episodes"),
    "scenario": (104_729,),
    "stage": ("stage", 104_729),
    "collecting": (1,),
    # Opponents of a round. The seeds of its episodes are the same for all opponents.
    "opponents": (3, "round"),
    # Optimizer steps of an update. The updates of a stage are numbered from STAGE_UPDATES, above
    # all numbers of rounds.
    "update": ("round", "model", "update_index"),
    # Episodes of cross-play.
    "cross_play": (4,),
    # Alternative actions of credit assignment by replays.
    "credit": (7, "round"),
    # Models of a group of episodes, and the order of models in a round robin.
    "matchmaking": (8, "group"),
    "round_robin": (9, "cycle"),
    # Episodes among the snapshots of an opponent pool.
    "pool_games": (11, "round"),
    # Resampling for confidence intervals.
    "bootstrap": (15_485_863,),
}
"""Name of a stream -> fixed numbers, and names of indices, such as 'round'."""
KEPT = ("round", "evaluation", "scenario", "stage", "update", "bootstrap")
"""Streams whose numbers follow the seed as entropy; those of the others are a spawn key."""

MOST_ROUNDS = 104_729
"""Largest number of rounds; the stream of a larger number would equal that of scenarios."""
STAGE_UPDATES = 2**31
"""Round number of the first update of a stage."""
MOST = 2**32 - 1
"""Largest seed and index."""

_BETWEEN_PROCESSES = 1_000_003


def sequence(seed: int, name: str, *indices: int) -> np.random.SeedSequence:
    """Return the NumPy SeedSequence of the stream `name`, a key of STREAMS.

    `indices` are the values of the index names that STREAMS lists for the stream, in that order.
    Raises ValueError if their number is wrong, or the seed or an index is outside 0 to MOST.
    """
    names = [word for word in STREAMS[name] if isinstance(word, str)]
    values = dict(zip(names, indices, strict=True))
    for argument, value in (("seed", seed), *values.items()):
        if not 0 <= value <= MOST:
            raise ValueError(f"{argument} must be 0 to {MOST}, got {value}")
    words = [values[word] if isinstance(word, str) else word for word in STREAMS[name]]
    if name in KEPT:
        return np.random.SeedSequence([seed, *words])
    return np.random.SeedSequence(seed, spawn_key=words)


def generator(seed: int, name: str, *indices: int) -> np.random.Generator:
    """Return a new generator seeded with `sequence(seed, name, *indices)`; raises its errors."""
    return np.random.default_rng(sequence(seed, name, *indices))


def of_update(seed: int, round_number: int, model: int, update_index: int) -> int:
    """Return the 32-bit seed of update number `update_index` of model number `model` in a round."""
    start = sequence(seed, "update", round_number, model, update_index)
    return int(start.generate_state(1, np.uint32)[0])


def of_step(update: int, step: int, process: int) -> int:
    """Return an optimizer step's seed: `update` (a seed) + `step` + 1,000,003 * `process`."""
    return update + step + _BETWEEN_PROCESSES * process


def of_games(
    draws: np.random.Generator, games: int, group_size: int = 1
) -> tuple[list[int], list[int]]:
    """Draw the seeds of episodes: (environment seeds, policy seeds), each of length `games`.

    Each `group_size` consecutive episodes share one environment seed, but no policy seed.
    """
    starts = draws.integers(2**31, size=-(-games // group_size)).tolist()
    policies = draws.integers(2**63, size=games).tolist()
    return [start for start in starts for _ in range(group_size)][:games], policies


def of_agents(policy_seed: int, count: int) -> list[int]:
    """Return `count` 64-bit seeds, one per agent of an episode, from the episode's policy seed."""
    states = np.random.SeedSequence(policy_seed).generate_state(count, np.uint64)
    return [int(state) for state in states]
