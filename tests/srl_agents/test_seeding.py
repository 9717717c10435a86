"""Named random streams."""

from collections import Counter
from itertools import product

import numpy as np
import pytest

from srl_agents import seeding
from srl_agents.seeding import KEPT, MOST, MOST_ROUNDS, STAGE_UPDATES, STREAMS, generator, sequence

SEEDS = (0, 1, 2, 3, 7_919, 104_729, 15_485_863, MOST)
# What the code asks with, its least and greatest, and the numbers at which layouts could meet.
NUMBERS = {
    "round": (0, 1, 2, 3, 7_919, MOST_ROUNDS - 1),
    "episodes": (1, 2, 3, 64, 7_919, 104_729),
    "stage": (0, 1),
    "step": (0, 1, 2, 7_919, 104_729),
    "call": (0, 1, 2),
    "model": (0, 1, 2, 64),
    "update_index": (0, 1, 2, STAGE_UPDATES, STAGE_UPDATES + 1),
    "group": (0, 1, 2, 7_919, 104_729),
    "cycle": (0, 1, 2, 7_919, 104_729),
}


def every_stream():
    for name, words in STREAMS.items():
        for indices in product(*(NUMBERS[word] for word in words if isinstance(word, str))):
            for seed in SEEDS:
                yield name, seed, indices


def test_streams_are_distinct():
    drawn = Counter()
    for name, seed, indices in every_stream():
        if name == "update":
            drawn[seeding.of_update(seed, *indices)] += 1
        else:
            drawn[int(generator(seed, name, *indices).integers(2**63))] += 1
    assert len(drawn) > 1_000
    assert max(drawn.values()) == 1


def test_streams_of_recorded_results_are_unchanged():
    kept = {
        ("round", (4,)): [9, 4],
        ("evaluation", (64,)): [9, 7_919, 64],
        ("scenario", ()): [9, 104_729],
        ("stage", (1,)): [9, 1, 104_729],
        ("bootstrap", ()): [9, 15_485_863],
    }
    for (name, indices), entropy in kept.items():
        own = np.random.default_rng(entropy).random(5)
        assert generator(9, name, *indices).random(5).tolist() == own.tolist()
    update = np.random.SeedSequence([9, 4, 1, 2]).generate_state(1, np.uint32)[0]
    assert seeding.of_update(9, 4, 1, 2) == update
    assert set(KEPT) == {*(name for name, _ in kept), "update"}


@pytest.mark.parametrize(
    ("seed", "indices", "message"),
    [
        (-1, (0,), "seed must be 0 to 4294967295, got -1"),
        (2**32, (0,), "seed must be 0 to 4294967295, got 4294967296"),
        (0, (2**32,), "round must be 0 to 4294967295, got 4294967296"),
        (0, (), "shorter"),
        (0, (1, 2), "longer"),
    ],
)
def test_numbers_out_of_range_are_rejected(seed, indices, message):
    with pytest.raises(ValueError, match=message):
        sequence(seed, "round", *indices)
