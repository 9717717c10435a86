import json
import logging
import threading

import pytest

from srl_extensions.trackers import libraries, sink
from srl_extensions.trackers.sink import FILE, TrackerSink
from srl_train.config.logging import LoggingConfig
from srl_train.errors import ConfigError, TrackerError
from srl_train.trainer import Trainer
from tests.srl_extensions.trackers.recorded import (
    EVALUATION,
    cut_off,
    opening,
    round_row,
    stage_row,
)


class Kept:
    """Tracker run that stores its records, and raises an error while `failing` is set."""

    def __init__(self, opening):
        self.opening, self.run_id, self.got = opening, opening.run_id or "run-1", []
        self.tracker, self.last, self.failed = self, {}, False
        self.failing = threading.Event()

    def _take(self, what):
        if self.failing.is_set():
            raise OSError("no route to https://me:pw@host\n(gone)")
        self.got.append(what)

    def log(self, numbers, step):
        section = next(iter(numbers)).split("/")[0]
        self._take((section, step))

    def finish(self):
        self._take("closed")


@pytest.fixture
def kept(monkeypatch):
    made = []

    def make(opening):
        made.append(Kept(opening))
        return made[-1]

    monkeypatch.setitem(libraries.LIBRARIES, "wandb", make)
    monkeypatch.setattr(sink, "find_spec", lambda name: True)
    return made


def of(folder, step=0, known=None):
    return TrackerSink(opening(folder, step, trackers=["wandb"]), {"sft": 2, "dpo": 3}, 10)


def test_steps_count_passes_then_rounds(tmp_path, kept):
    trackers = of(tmp_path)
    trackers.write_evaluation("before", EVALUATION)
    trackers.write(stage_row(2))
    for when in ("after_sft", "after_dpo"):
        trackers.write_evaluation(when, EVALUATION)
    trackers.write(round_row(0))
    trackers.write_evaluation("round_1", EVALUATION)
    trackers.write(round_row(9))
    trackers.write_evaluation("after", EVALUATION)
    trackers.close()
    assert kept[0].got == [
        ("eval", 0), ("dpo", 2), ("eval", 2), ("eval", 5), ("train", 5), ("eval", 6),
        ("train", 14), ("eval", 15), "closed",
    ]  # fmt: skip


def test_first_failure_is_a_warning(tmp_path, kept, caplog):
    trackers = of(tmp_path)
    trackers.write(round_row(0))
    trackers._thread.submit(kept[0].failing.set).result()
    with caplog.at_level(logging.WARNING):
        trackers.write(round_row(1))
        trackers.write(round_row(2))
        trackers._thread.submit(kept[0].failing.clear).result()
        trackers.write(round_row(3))
        trackers._thread.submit(int).result()
        trackers.close()
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 1 and told[0].endswith("OSError: no route to https://...@host (gone)")
    assert kept[0].got == [("train", 5), ("train", 8), "closed"]
    assert json.loads((tmp_path / FILE).read_text())["wandb"]["last"] == {"train": 8}


def test_pending_records_of_a_dead_server_are_dropped_at_the_end(tmp_path, kept, caplog):
    trackers = of(tmp_path)
    waiting, tries = threading.Event(), []

    def log(numbers, step):
        waiting.wait()
        tries.append(step)
        raise TimeoutError

    kept[0].log = log
    for number in range(5):
        trackers.write(round_row(number))
    threading.Timer(0.2, waiting.set).start()
    trackers.close()
    assert tries == [5] and len(caplog.records) == 1


def test_resumed_run_logs_each_step_once(short_run, tmp_path, kept):
    logging = {"trackers": ["wandb"], "evaluation_episodes": 2}
    cut_off(short_run(rounds=4, checkpoints__every=2, logging=logging), tmp_path / "run")
    first, second = kept
    assert first.got == [
        ("eval", 0), ("train", 0), ("train", 1), ("train", 2), "closed",
    ]  # fmt: skip
    assert (second.opening.run_id, second.opening.step, second.opening.name) == (
        "run-1", 2, "run"
    )  # fmt: skip
    assert second.got == [("train", 3), ("eval", 4), "closed"]


def test_tracker_that_cannot_be_opened_raises_before_training(short_run, tmp_path, monkeypatch):
    def refused(opening):
        raise ValueError("no key for https://me:pw@host;\nlog in")

    monkeypatch.setitem(libraries.LIBRARIES, "wandb", refused)
    monkeypatch.setattr(sink, "find_spec", lambda name: True)
    trainer = Trainer(short_run(logging__trackers=["wandb"]), tmp_path)
    with pytest.raises(TrackerError) as told:
        trainer.fit()
    assert str(told.value) == (
        "logging.trackers: wandb cannot be opened: ValueError: no key for https://...@host; log in"
    )
    assert not (tmp_path / "metrics.jsonl").exists()


def test_missing_package_raises_before_training(monkeypatch, short_run, tmp_path):
    monkeypatch.setattr(sink, "find_spec", lambda name: None)
    trainer = Trainer(short_run(logging__trackers=["mlflow"]), tmp_path)
    with pytest.raises(TrackerError, match=r'pip install "core-srl\[mlflow\]"'):
        trainer.fit()


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"wandb": 1}', '{"wandb": {"run_id": 5, "last": {}}}',
     '{"wandb": {"run_id": "../../x", "last": {}}}',
     f'{{"wandb": {{"run_id": "{"x" * 202}", "last": {{}}}}}}',
     '{"wandb": {"run_id": "x", "last": {"train": "9"}}}'],
)  # fmt: skip
def test_a_damaged_record_of_runs_is_refused(text, tmp_path, kept):
    (tmp_path / FILE).write_text(text)
    with pytest.raises(TrackerError, match=FILE):
        of(tmp_path, step=1)


@pytest.mark.parametrize(
    ("section", "told"),
    [
        ({"trackers": ["wandb", "wandb"]}, "must be different"),
        ({"trackers": ["comet"]}, "'tensorboard', 'trackio', 'wandb' or 'mlflow'"),
        ({"tracker_options": {"wandb": {"mode": "offline"}}}, "wandb must be in trackers"),
        ({"trackers": ["tensorboard"], "run_name": "../x"}, "run_name: "),
        ({"trackers": ["tensorboard"], "run_name": "x" * 101}, "run_name: "),
        (
            {
                "trackers": ["mlflow"],
                "tracker_options": {"mlflow": {"tracking_uri": "http://me:secret@h"}},
            },
            "must not contain",
        ),
    ],
)
def test_settings_of_trackers_are_checked(section, told):
    with pytest.raises(ConfigError, match=told) as error:
        LoggingConfig(**section)
    assert "secret" not in str(error.value)
