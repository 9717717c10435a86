"""Named random streams: their table, what they draw, and that no two start alike."""

from collections import Counter
from itertools import product

import numpy as np
import pytest

from srl_agents import seeding
from srl_agents.seeding import MOST, MOST_ROUNDS, STAGE_UPDATES, STREAMS, generator, sequence

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
    for name, stream in STREAMS.items():
        for indices in product(*(NUMBERS[index] for index in stream.indices)):
            for seed in SEEDS:
                yield name, seed, indices


def test_no_two_streams_start_alike():
    drawn = Counter()
    for name, seed, indices in every_stream():
        if name == "update":
            drawn[seeding.of_update(seed, *indices)] += 1
        else:
            drawn[int(generator(seed, name, *indices).integers(2**63))] += 1
    assert len(drawn) > 1_000
    assert max(drawn.values()) == 1


def test_no_two_generators_have_the_same_entropy():
    """Their first draws may differ by chance; this is what they are made of."""
    words = Counter(
        tuple(sequence(seed, name, *indices).generate_state(4))
        for name, seed, indices in every_stream()
        if name != "update"  # which gives numbers
    )
    assert max(words.values()) == 1


def test_the_streams_that_recorded_results_rest_on_keep_their_numbers():
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
    assert {name for name, stream in STREAMS.items() if stream.kept} == {
        *(name for name, _ in kept),
        "update",
    }


def test_a_kept_layout_has_no_more_words_than_stand_before_a_spawn_key():
    for name, stream in STREAMS.items():
        if stream.kept:
            assert len(stream.words) <= 3, name  # and the seed before them


def test_the_seats_of_a_game_start_apart():
    starts = [start for course in range(50) for start in seeding.of_agents(course, 8)]
    assert len(set(starts)) == 400
    assert seeding.of_agents(5, 3) == seeding.of_agents(5, 8)[:3]


def test_the_steps_of_an_update_start_apart_in_all_processes():
    found = [seeding.of_step(7, step, process) for step in range(64) for process in range(16)]
    assert len(set(found)) == len(found)
    assert seeding.of_step(7, 0, 0) == 7


@pytest.mark.parametrize(
    ("seed", "indices", "message"),
    [
        (-1, (0,), "seed is -1: give 0 to 4294967295"),
        (2**32, (0,), "seed is 4294967296: give 0 to 4294967295"),
        (0, (2**32,), "round is 4294967296: give 0 to 4294967295"),
        (0, (), "shorter"),
        (0, (1, 2), "longer"),
    ],
)
def test_what_would_take_the_place_of_another_number_is_refused(seed, indices, message):
    with pytest.raises(ValueError, match=message):
        sequence(seed, "round", *indices)
