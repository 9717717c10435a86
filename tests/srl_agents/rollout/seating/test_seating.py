"""Assignment of models to the agents that are not fixed."""

import pytest

from srl_agents.matchmaking import assign_agents

FOUR = ("a", "b", "c", "d")


@pytest.mark.parametrize(
    "seats, models, fixed, dealt",
    [
        (FOUR, ["m0", "m1", "m2", "m3"], {}, "m0 m1 m2 m3"),
        (FOUR, ["m0"], {}, "m0 m0 m0 m0"),
        (FOUR, ["m0", "m1"], {}, "m0 m1 m0 m1"),
        (FOUR, ["m0", "m1"], {"a": "m1"}, "m1 m0 m1 m0"),
        (FOUR, ["m0", "m1"], {"b": "tit_for_tat"}, "m0 tit_for_tat m1 m0"),
        (FOUR, ["m0"], {"b": "x", "c": "x", "d": "x"}, "m0 x x x"),
        (FOUR, ["m0", "m1"], {"a": "m0", "b": "m1"}, "m0 m1 m0 m1"),
        (FOUR, ["m0", "m1", "m2"], {"a": "m0", "d": "x"}, "m0 m1 m2 x"),
        (FOUR, ["m0"], dict.fromkeys(FOUR, "m0"), "m0 m0 m0 m0"),
    ],
)
def test_assign_agents(seats, models, fixed, dealt):
    found = assign_agents(seats, models, fixed)
    assert list(found) == list(seats)
    assert " ".join(found.values()) == dealt


@pytest.mark.parametrize(
    "models, fixed, says",
    [
        (["m0"], {"z": "m0"}, "agents must be among a, b, c, d, got 'z'"),
        ([f"m{i}" for i in range(5)], {}, "m4 does not: 4 free agent"),
        (["m0", "m1"], {"a": "x", "b": "x", "c": "x"}, "m1 does not: 1 free agent"),
        (["m0", "m1"], dict.fromkeys(FOUR, "m1"), "m0 does not: 0 free agent"),
    ],
)
def test_impossible_fixed_assignments_are_rejected(models, fixed, says):
    with pytest.raises(ValueError, match=says):
        assign_agents(FOUR, models, fixed)
