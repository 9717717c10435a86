"""Seconds of rollouts, of learning and of both."""

import pytest

from srl_extensions.play_ahead import schedule
from srl_extensions.play_ahead.schedule import Activity


@pytest.fixture
def clock(monkeypatch):
    """Function that sets the time in seconds."""

    def now(seconds):
        monkeypatch.setattr(schedule.time, "perf_counter", lambda: 100.0 + seconds)

    now(0)
    return now


def test_activity_counts_rollout_train_and_overlap_seconds(clock):
    busy = Activity()
    busy.change("rollout", 1)
    clock(2)
    busy.change("train", 1)
    clock(3)
    busy.change("train", 1)
    clock(5)
    busy.change("train", -1)
    assert busy.seconds() == {"rollout": 5.0, "train": 3.0, "overlap": 3.0}
    clock(6)
    busy.change("rollout", -1)
    clock(10)
    busy.change("train", -1)
    clock(20)
    assert busy.seconds() == {"rollout": 1.0, "train": 5.0, "overlap": 1.0}
