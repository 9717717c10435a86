"""Who was busy when: spans on disk, and the seconds that play and learning share."""

import json

import pytest

from srl_train.metrics import activity
from srl_train.metrics.activity import Activity, Span, read_activity
from srl_train.metrics.errors import MetricsError


@pytest.fixture
def clock(monkeypatch):
    """Sets the time."""

    def now(seconds):
        monkeypatch.setattr(activity.time, "perf_counter", lambda: 100.0 + seconds)

    now(0)
    return now


def test_seconds_of_play_of_learning_and_of_both(clock, tmp_path):
    busy = Activity(tmp_path / "activity.jsonl")
    play = busy.begin("play", 0)
    clock(2)
    one = busy.begin("model_0", 0)
    clock(3)
    other = busy.begin("model_1", 0)
    clock(5)
    busy.end(one)
    assert busy.seconds() == {"rollout": 5.0, "train": 3.0, "overlap": 3.0}
    clock(6)
    busy.end(play)
    clock(10)
    busy.end(other)
    clock(20)
    assert busy.seconds() == {"rollout": 1.0, "train": 5.0, "overlap": 1.0}
    busy.close()
    assert read_activity(tmp_path / "activity.jsonl") == [
        Span("model_0", 0, 2.0, 5.0), Span("play", 0, 0.0, 6.0), Span("model_1", 0, 3.0, 10.0),
    ]  # fmt: skip
    # Gone on from round 0, its spans are made again; from round 1, the time goes on.
    again = Activity(tmp_path / "activity.jsonl", from_round=1)
    assert again.now() == 10.0
    again.close()
    Activity(tmp_path / "activity.jsonl", from_round=0).close()
    assert not read_activity(tmp_path / "activity.jsonl")


@pytest.mark.parametrize(
    "wrong",
    [{"who": 3}, {"start": -1e9}, {"end": 0.0}, {"end": float("inf")}, {"more": 1}, {"round": "x"}],
    ids=str,
)
def test_what_is_no_span_is_refused(wrong, tmp_path):
    path = tmp_path / "activity.jsonl"
    span = {"who": "play", "round": 0, "start": 0.0, "end": 1.0}
    path.write_text("\n".join(json.dumps(one) for one in (span, {**span, **wrong}, span)))
    with pytest.raises(MetricsError, match="line 2"):
        read_activity(path)
