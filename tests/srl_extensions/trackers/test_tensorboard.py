import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from srl_extensions.trackers.libraries import tensorboard_run
from srl_train.errors import TrackerError
from srl_train.metrics import read_metrics
from tests.srl_extensions.trackers.recorded import cut_off, opening


def read(folder):
    return EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0}).Reload()


def scalars(events, tag):
    return [(one.step, one.value) for one in events.Scalars(tag)]


def test_resumed_run_has_each_round_once(short_run, tmp_path):
    logging = {"trackers": ["tensorboard"], "evaluation_episodes": 2, "episodes_every": 2}
    config = short_run(rounds=4, checkpoints__every=2, logging=logging)
    cut_off(config, tmp_path)
    events = read(tmp_path / "tensorboard")
    assert [step for step, _ in scalars(events, "eval/reward")] == [0, 4]
    rows = read_metrics(tmp_path / "metrics.jsonl")
    for tag, wanted in {
        "train/reward": [row["environment"]["raw_reward"] for row in rows],
        "train/model_1/loss": [row["models"]["model_1"]["loss"] for row in rows],
        "train/agents/agent_0/reward": [row["by_agent"]["agent_0"]["raw_reward"] for row in rows],
    }.items():
        found = scalars(events, tag)
        assert [step for step, _ in found] == [0, 1, 2, 3]
        assert [value for _, value in found] == pytest.approx(wanted, rel=1e-6)
    assert not (tmp_path / "trackers.json").exists()


def test_runs_do_not_share_a_configured_directory(tmp_path):
    where = {"trackers": ["tensorboard"], "directory": str(tmp_path / "all")}
    run = tensorboard_run(opening(tmp_path / "one", **where))
    run.log({"train/a": 1.0}, 0)
    run.tracker.finish()
    assert scalars(read(tmp_path / "all" / "demo"), "train/a") == [(0, 1.0)]
    with pytest.raises(TrackerError, match="events of another run"):
        tensorboard_run(opening(tmp_path / "two", **where))
    again = tensorboard_run(opening(tmp_path / "one", step=0, trackers=["tensorboard"]))
    again.tracker.finish()
