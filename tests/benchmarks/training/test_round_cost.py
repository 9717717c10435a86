import json

import pytest

from benchmarks.training import round_cost
from benchmarks.training.bare_trl import BareTrainer
from srl_train.engine import rounds


@pytest.mark.parametrize(
    "extra",
    [{"models.adapters": {"rank": 2}}, {"grpo.minibatches": 2, "grpo.iterations": 2}],
    ids=["LoRA", "minibatches"],
)
def test_both_sides_do_the_same_work(small_setting, empty_config, extra):
    overrides = {**small_setting, "models.count": 2, "grpo.schedule": "linear", **extra}
    overrides["environment.options"] = {"num_agents": 2, "max_cycles": 2}
    overrides["rollout.group_size"] = 4
    play = rounds.play_groups
    result = round_cost.measure(empty_config, overrides, repeats=1)
    assert rounds.play_groups is play
    assert result["difference"] == 0.0
    assert (result["rounds"], result["models"], result["samples"]) == (2, 2, 16)
    for side in ("ours", "bare", "bare_loop"):
        [seconds] = result[side]
        assert seconds > 0
    assert result["bare_loop"][0] < result["bare"][0]
    assert "its loop alone" in round_cost.markdown(result)
    json.dumps(result)


def test_other_work_is_seen(small_setting, empty_config, monkeypatch):
    monkeypatch.setattr(BareTrainer, "train", lambda self: None)
    overrides = {**small_setting, "rounds": 1, "models.count": 1}
    result = round_cost.measure(empty_config, overrides, repeats=1)
    assert result["difference"] > 0
    assert [check.held for check in round_cost.checks({**result, "bare_loop": [1e9]})][1] is False


def test_the_target_can_be_missed():
    result = {"ours": [1.2, 1.2], "bare_loop": [1.0, 1.0], "difference": 0.0}
    assert [check.held for check in round_cost.checks(result)] == [False, True]
