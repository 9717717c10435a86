"""A full disk ends a run with one line, and the run can be resumed."""

import resource
import sys
from contextlib import contextmanager

import pytest

from srl_train import cli
from srl_train.checkpoints import list_checkpoints
from srl_train.config import yaml_file
from srl_train.trainer import Trainer
from tests.srl_train.engine.run_state import everything, same


@contextmanager
def no_file_above(size):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        # Python cuts the bytecode of modules that it imports meanwhile, and would load it later.
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "dont_write_bytecode", True)
            yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


# 100 bytes do not hold a row of metrics, 64 KiB do, and no checkpoint.
@pytest.mark.parametrize("size", [100, 2**16])
def test_a_full_disk_is_one_line_and_the_run_resumes(size, short_run, tmp_path, capsys):
    config, out = short_run(rounds=3), tmp_path / "run"
    first = Trainer(config, out)
    first.train_round()
    first.save_checkpoint()
    first.close()
    (tmp_path / "run.yaml").write_text(yaml_file.dump(config))
    resume = ["train", str(tmp_path / "run.yaml"), "--resume", "--out", str(out), "--quiet"]
    with no_file_above(size):
        assert cli.main(resume) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert f"{out} " in line and "File too large" in line
    assert f"srl train --resume --out {out}" in line
    assert list_checkpoints(out / "checkpoints") == ["round_00000001"]
    assert cli.main(resume) == 0
    whole, resumed = Trainer(config, tmp_path / "whole"), Trainer(config, out)
    whole.fit()
    resumed.load_checkpoint()
    assert same(everything(resumed.run), everything(whole.run))
