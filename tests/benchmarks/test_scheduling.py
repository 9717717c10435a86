"""The scheduler's benchmark: turns find their prefix where routing knows of it."""

from benchmarks.scheduling import hits


def test_the_scheduler_brings_turns_back_to_their_server():
    for load, ways in hits(seed=1).items():
        assert ways["round robin"] < 0.35, load
        assert ways["scheduler"] > 0.6, load
