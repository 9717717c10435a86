"""`srl train`: runs from a file, overrides, wrong arguments and resume."""

import argparse
from pathlib import Path

import pytest

from srl_train import cli
from srl_train.cli import train
from srl_train.config import yaml_file
from srl_train.metrics import read_metrics


@pytest.fixture
def config_path(short_run, tmp_path):
    path = tmp_path / "pair.yaml"
    path.write_text(yaml_file.dump(short_run(rounds=1, logging={"evaluation_episodes": 2})))
    return path


def test_train_prints_a_summary_and_resumes(config_path, tmp_path, capsys):
    out = tmp_path / "out"
    assert cli.main(["train", str(config_path), "--out", str(out)]) == 0
    printed = capsys.readouterr()
    assert "Raw reward per agent and step: " in printed.out
    assert "model_1" in printed.out and f"srl report {out}" in printed.out
    assert "round 1/1" in printed.out + printed.err
    assert yaml_file.load(out / "config.yaml") == yaml_file.load(config_path)
    assert (out / "models" / "model_0" / "config.json").exists()
    more = ["--resume", "--out", str(out), "--set", "rounds=2", "--quiet"]
    assert cli.main(["train", *more]) == 0
    printed = capsys.readouterr()
    assert "resuming after 1 of 2 rounds" in printed.out
    assert "round 2/2" not in printed.out + printed.err
    assert [row["round"] for row in read_metrics(out / "metrics.jsonl")] == [0, 1]


def test_command_line_overrides_settings_and_seed(config_path):
    parser = argparse.ArgumentParser()
    train.add_arguments(parser)
    words = [str(config_path), "--seed", "7", "--set", "rounds=3", "--set", "seats={}"]
    words += ["--set", "algorithm.learning_rate=1e-4", "--set", "models.sampling.temperature=0.5"]
    folder, config = train._folder_and_config(parser.parse_args(words))
    assert folder == Path("runs/pair")
    assert (config.seed, config.rounds, config.algorithm.learning_rate) == (7, 3, 1e-4)
    assert config.models.sampling.temperature == 0.5


def test_a_refused_run_leaves_no_folder(config_path, tmp_path, capsys, monkeypatch):
    out = tmp_path / "run"
    words = ["train", str(config_path), "--out", str(out), "--set"]
    assert cli.main([*words, "seats.me=tiny"]) == 2
    assert not out.exists()
    monkeypatch.setattr(train, "prepare_torch", None)  # An environment is checked before torch.
    assert cli.main([*words, "environment.options.max_cycle=3"]) == 2
    assert "max_cycle" in capsys.readouterr().err and not out.exists()


def test_a_refused_run_keeps_a_folder_of_the_user(config_path, tmp_path, monkeypatch):
    folder, link = tmp_path / "folder", tmp_path / "link"
    folder.mkdir()
    link.symlink_to(folder)
    monkeypatch.chdir(folder)
    for out in (folder, link, "."):
        assert (
            cli.main(["train", str(config_path), "--out", str(out), "--set", "seats.me=tiny"]) == 2
        )
        assert link.is_symlink() and not any(folder.iterdir())


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["{config}", "--out", "{config}"], "the run's folder: cannot write"),
        (["{config}", "--set", "logging.trackers=[mlflow]"], "mlflow needs mlflow: pip install"),
        (["{config}", "--resume"], "Checkpoint not found"),
        ([], "a configuration file is required, or --resume"),
    ],
)
def test_wrong_arguments_print_one_line(words, says, config_path, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = [str(config_path) if word == "{config}" else word for word in words]
    assert cli.main(["train", *words, "--quiet"]) == 2
    captured = capsys.readouterr()
    [line] = [one for one in captured.err.splitlines() if one.startswith("srl: error: ")]
    assert says in line
    assert not list(tmp_path.rglob("metrics.jsonl"))
