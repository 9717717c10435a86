import pytest

from benchmarks.training import federated
from srl_agents.evaluation.bootstrap import mean_interval


@pytest.mark.slow
def test_returns_and_bytes_are_compared_with_those_of_meeting_every_round(small):
    meetings = {
        "every round": federated.MEETINGS["every round"],
        "every 2": {"updates": {"strategy": "federated", "period": 2}},
    }
    request = small(
        games=4,
        seeds=(0, 1),
        models__count=2,
        environment__options={"num_agents": 2, "max_cycles": 8},
        rollout__group_size=8,
        algorithm__learning_rate=3e-2,
    )
    result = federated.communication(request, meetings)
    *rows, whole = result.rows
    assert [row["variant"] for row in rows] == [*meetings] * 2
    for first, second in (rows[:2], rows[2:]):
        assert (first["share"], first["loss"], second["share"]) == (1.0, 0.0, 0.5)
        gain = first["after"] - first["before"]
        assert second["loss"] == pytest.approx((first["after"] - second["after"]) / gain)
    assert (whole["loss"], whole["low"], whole["high"]) == mean_interval(
        [rows[1]["loss"], rows[3]["loss"]]
    )
    text = federated.FEDERATED_COMMUNICATION.tables[1].markdown(result.rows)
    assert text.count("\n| every 2 | 50% |") == 1
