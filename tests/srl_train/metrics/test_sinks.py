import math

import numpy as np
import pytest

from srl_train.errors import MetricsError
from srl_train.metrics import JsonlSink, read_metrics


def write(path, *rounds, **options):
    sink = JsonlSink(path, **options)
    for number in rounds:
        sink.write({"round": number, "value": 10 * number})
    sink.close()


def rounds_in(path):
    return [row["round"] for row in read_metrics(path)]


def test_row_is_flushed_when_written(tmp_path):
    sink = JsonlSink(tmp_path / "deep/metrics.jsonl")
    sink.write({"round": 0, "value": np.float32(0.5), "who": ["a", "b"], "none": None})
    assert read_metrics(tmp_path / "deep/metrics.jsonl") == [
        {"round": 0, "value": 0.5, "who": ["a", "b"], "none": None}
    ]
    sink.close()


@pytest.mark.parametrize(("resumed_at", "kept"), [(0, []), (2, [0, 1]), (9, [0, 1, 2, 3])])
def test_resume_removes_later_rows(tmp_path, resumed_at, kept):
    path = tmp_path / "m.jsonl"
    write(path, 0, 1, 2, 3)
    write(path, resumed_at, resume_from_round=resumed_at)
    assert rounds_in(path) == [*kept, resumed_at]
    assert [entry.name for entry in tmp_path.iterdir()] == ["m.jsonl"]


def test_incomplete_last_line_is_ignored(tmp_path):
    path = tmp_path / "m.jsonl"
    write(path, 0, 1, 2)
    content = path.read_bytes()
    ends = [place for place, byte in enumerate(content) if byte == ord("}")]
    for length in range(len(content) + 1):
        path.write_bytes(content[:length])
        whole = sum(length > end for end in ends)
        assert rounds_in(path) == list(range(whole))


def test_damaged_line_error_names_the_line(tmp_path):
    path = tmp_path / "m.jsonl"
    path.write_text('{"round": 0}\n{"roun\n{"round": 2}\n')
    with pytest.raises(MetricsError, match="line 2 is damaged"):
        read_metrics(path)
    with pytest.raises(MetricsError, match="line 2 is damaged"):
        JsonlSink(path)


@pytest.mark.parametrize("line", ["3", '{"value": 1}', '{"round": "1"}'])
def test_row_without_a_round_is_refused(tmp_path, line):
    path = tmp_path / "m.jsonl"
    path.write_text(line + '\n{"round": 1}\n')
    with pytest.raises(MetricsError):
        JsonlSink(path, resume_from_round=1)


def test_nan_and_infinity_are_written_as_null(tmp_path):
    path = tmp_path / "m.jsonl"
    sink = JsonlSink(path)
    sink.write({"round": 0, "loss": math.nan, "models": {"a.b": [1.0, np.float32("inf")]}})
    sink.close()
    assert read_metrics(path) == [{"round": 0, "loss": None, "models": {"a.b": [1.0, None]}}]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"models": {"m": {"loss": object()}}}, "type object"),
        ({"round": 0, "weights": np.zeros(2)}, "type ndarray"),
    ],
)
def test_unsupported_value_raises_and_writes_nothing(tmp_path, row, says):
    sink = JsonlSink(tmp_path / "m.jsonl")
    with pytest.raises(MetricsError, match=says):
        sink.write(row)
    sink.close()
    assert (tmp_path / "m.jsonl").read_bytes() == b""
