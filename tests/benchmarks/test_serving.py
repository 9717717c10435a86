import pytest

from benchmarks import serving
from benchmarks.records import Repeats
from tests.servers.vllm_stub import stub_server


def test_both_ways_are_measured_against_a_server(monkeypatch, tiny_folder):
    monkeypatch.setattr(serving, "TURNS", 2)
    with stub_server(tiny_folder) as stub:
        speeds = serving.measure(stub.url, stub.folder, episodes=2, repeats=1)
    assert set(speeds) == {serving.GROUPED, serving.SINGLE} and all(min(own) > 0 for own in
                                                                   speeds.values())  # fmt: skip
    # The check of the server; a warm-up and a repeat of two turns, in one call each or one per
    # answer.
    assert len(stub.bodies) == 5 + 32


@pytest.mark.parametrize(("grouped", "held"), [(3.0, True), (2.9, False)])
def test_the_target_can_be_missed(grouped, held):
    speeds = {serving.GROUPED: Repeats([grouped]), serving.SINGLE: Repeats([1.0])}
    _, checks = serving.tables(speeds)
    assert [check.held for check in checks] == [held]
