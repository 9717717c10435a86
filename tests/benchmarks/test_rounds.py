import pytest

from benchmarks.bare_trl import BareTrainer
from benchmarks.rounds import round_cost
from tests.benchmarks.conftest import TWO_AGENTS

ROUNDING = 1e-5


@pytest.fixture
def request_of(small):
    def request(**extra):
        options = {"environment__options": TWO_AGENTS, "models__count": 2, **extra}
        return small(
            "round_cost", change={"options": {"repeats": 1}}, rollout__group_size=4,
            rollout__groups_per_round=1, **options,
        )  # fmt: skip

    return request


@pytest.mark.slow
def test_both_trainers_process_the_same_tokens(request_of):
    steps = {"algorithm__minibatches": 2, "algorithm__num_iterations": 2}
    request = request_of(models__adapters={"rank": 2}, **steps)
    result = round_cost(request)
    ours, whole, loop = result.rows
    assert ours["difference"] < ROUNDING
    assert (result.facts["rounds"], result.facts["models"], result.facts["samples"]) == (2, 2, 16)
    assert 0 < loop["seconds"][0] < whole["seconds"][0]
    assert loop["overhead"] == pytest.approx(ours["seconds"][0] / loop["seconds"][0] - 1)
    assert "its loop alone" in request.claim.markdown(result, request)


@pytest.mark.slow
def test_concurrent_load_is_detected(request_of, monkeypatch):
    monkeypatch.setattr(BareTrainer, "train", lambda self: setattr(self, "loop_seconds", 1.0))
    request = request_of()
    result = round_cost(request)
    assert result.rows[0]["difference"] > ROUNDING
    assert [check.held for check in request.claim.judge(result)][1] is False
