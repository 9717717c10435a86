"""Files of a run: one Trainer writes at a time, and sinks receive all results."""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from srl_train import cli, run_files
from srl_train.config import yaml_file
from srl_train.errors import CheckpointNotFound, ConfigError
from srl_train.trainer import Trainer

HOLDER = """
import sys
from pathlib import Path
from srl_train.run_files import RunFiles
lock = RunFiles(Path(sys.argv[1]), Path(sys.argv[1]) / "checkpoints").lock()
print("locked", flush=True)
sys.stdin.read()
"""


def test_second_process_on_a_run_folder_is_refused(short_run, tmp_path, capsys):
    path, out = tmp_path / "run.yaml", tmp_path / "run"
    path.write_text(yaml_file.dump(short_run(rounds=1)))
    root = Path(__file__).parents[2]
    train = ["train", str(path), "--out", str(out), "--quiet"]
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(out)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root,
        env=os.environ | {"PYTHONPATH": str(root)},
    ) as holder:  # fmt: skip
        assert holder.stdout.readline() == b"locked\n"
        for resume in ([], ["--resume"]):
            assert cli.main([*train, *resume]) == 2
            assert f"{out} is in use by process {holder.pid}: " in capsys.readouterr().err
        assert not (out / "metrics.jsonl").exists()
        holder.kill()
    assert cli.main(train) == 0


def test_two_trainers_of_one_process_lock_the_folder_in_turn(short_run, tmp_path):
    first, second = (Trainer(short_run(), tmp_path / "run") for _ in range(2))
    first.train_round()
    first.save_checkpoint()
    for write in (second.fit, second.load_checkpoint, second.save_models, second.save_checkpoint):
        with pytest.raises(ConfigError, match="is in use by another Trainer of this process"):
            write()
    first.fit()
    for fails in (partial(second.load_checkpoint, "x"), second.save_models):
        with pytest.raises((CheckpointNotFound, ConfigError), match=r"not found|already contains"):
            fails()
        with first:
            first.lock()
    second.load_checkpoint("round_00000001")
    second.close()


def test_sinks_receive_all_episodes_and_evaluations(short_run, tmp_path):
    class Kept:
        def __init__(self):
            self.got = []

        def write(self, row):
            self.got.append(("row", row["round"]))

        def write_episodes(self, round_number, episodes):
            self.got.append((round_number, len(episodes), len(episodes[0].turns)))

        def write_evaluation(self, when, measured):
            self.got.append((when, measured["episodes"]))

        def close(self):
            self.got.append("closed")

    kept, config = Kept(), short_run(logging={"evaluation_episodes": 3, "episodes": 0})
    Trainer(config, tmp_path, sinks=(kept,)).fit()
    assert kept.got == [
        ("before", 3), ("row", 0), (0, 4, 2), ("row", 1), (1, 4, 2), "closed", ("after", 3)
    ]  # fmt: skip


def test_no_file_replaces_a_pipe_or_device(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="no file may replace"):
        run_files.write_whole(tmp_path / "pipe", "text")
    assert [path.is_fifo() for path in tmp_path.iterdir()] == [True]
