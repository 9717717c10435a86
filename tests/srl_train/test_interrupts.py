"""Signals, errors and full disks end a run, and the resumed run has the same weights."""

import os
import resource
import signal
import sys
import time
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from srl_train import cli
from srl_train import round as round_module
from srl_train.checkpoints import list_checkpoints
from srl_train.config import yaml_file
from srl_train.metrics import read_metrics
from srl_train.trainer import Trainer
from tests.srl_train.run_state import everything, same, without_times


@pytest.fixture(autouse=True)
def handlers_of_a_program():
    """Install the default handlers, because workers of pytest-xdist ignore SIGINT."""
    before = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    for one, handler in before.items():
        signal.signal(one, handler)


def interrupt_at(monkeypatch, number, phase, signals):
    """Send the signals to this process, or raise the errors, before a phase of a round."""
    place = {"play": "play", "learning": "learn"}[phase]
    work = getattr(round_module, place)

    def interrupted(run, at, *rest):
        if run.next_round == number:
            for one in signals:
                if isinstance(one, Exception):
                    raise one
                os.kill(os.getpid(), one)
        return work(run, at, *rest)

    monkeypatch.setattr(round_module, place, interrupted)


@pytest.fixture(scope="module")
def whole(short_run, tmp_path_factory):
    """Return the Trainer of an uninterrupted run of three rounds."""
    trainer = Trainer(short_run(rounds=3), tmp_path_factory.mktemp("whole") / "run")
    trainer.fit()
    return trainer


@pytest.mark.parametrize(
    ("number", "phase", "signals", "raised", "saved"),
    [
        (0, "play", [signal.SIGINT], KeyboardInterrupt, None),
        (0, "learning", [signal.SIGTERM], SystemExit, 1),
        (1, "play", [KeyError("a mistake in a reward function")], KeyError, 1),
        (1, "learning", [signal.SIGINT, signal.SIGINT], KeyboardInterrupt, None),
    ],
)
def test_interrupted_run_resumes_with_the_same_weights(
    number, phase, signals, raised, saved, whole, short_run, tmp_path, monkeypatch
):
    before = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)]
    trainer = Trainer(short_run(rounds=3), tmp_path / "run")
    with monkeypatch.context() as patch:
        interrupt_at(patch, number, phase, signals)
        with pytest.raises(raised) as error:
            trainer.fit()
    assert raised is not SystemExit or error.value.code == 143
    assert [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)] == before
    expected = [] if saved is None else [f"round_{saved:08d}"]
    assert list_checkpoints(tmp_path / "run" / "checkpoints") == expected
    resumed = Trainer(short_run(rounds=3), tmp_path / "run")
    assert resumed.resume() is (saved is not None)
    resumed.fit()
    assert same(everything(resumed.run), everything(whole.run))
    rows = [read_metrics(one.files.metrics) for one in (resumed, whole)]
    assert without_times(rows[0]) == without_times(rows[1])


def test_checkpoints_by_time_do_not_change_the_weights(whole, short_run, tmp_path, monkeypatch):
    clock = SimpleNamespace(
        monotonic=iter(range(0, 10_000, 60)).__next__, perf_counter=time.perf_counter
    )
    monkeypatch.setattr("srl_train.trainer.time", clock)
    config = short_run(rounds=3, checkpoints={"every": 0, "every_minutes": 2})
    trainer = Trainer(config, tmp_path / "run")
    saved = trainer.fit()["checkpoints_saved"]
    assert saved == ["round_00000002", "final_round_00000003"]
    assert same(everything(trainer.run), everything(whole.run))


@contextmanager
def no_file_above(size):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        # Bytecode files written here would be truncated and loaded later.
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "dont_write_bytecode", True)
            yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_full_disk_prints_one_line_and_the_run_resumes(whole, short_run, tmp_path, capsys):
    config, out = short_run(rounds=3), tmp_path / "run"
    first = Trainer(config, out)
    first.train_round()
    first.save_checkpoint()
    first.close()
    (tmp_path / "run.yaml").write_text(yaml_file.dump(config))
    resume = ["train", str(tmp_path / "run.yaml"), "--resume", "--out", str(out), "--quiet"]
    with no_file_above(2**16):  # Large enough for a metrics row, too small for a checkpoint.
        assert cli.main(resume) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert f"{out} " in line and "File too large" in line
    assert f"srl train --resume --out {out}" in line
    assert list_checkpoints(out / "checkpoints") == ["round_00000001"]
    assert cli.main(resume) == 0
    resumed = Trainer(config, out)
    resumed.load_checkpoint()
    assert same(everything(resumed.run), everything(whole.run))
