"""`srl train`: from a file to a run, with overrides, refusals and resumption."""

import pytest

from srl_train import cli
from srl_train.config import yaml_file
from srl_train.metrics import read_metrics


@pytest.fixture
def config_path(short_run, tmp_path):
    path = tmp_path / "pair.yaml"
    path.write_text(yaml_file.dump(short_run(logging={"evaluation_episodes": 2, "episodes": 0})))
    return path


def test_a_run_is_trained_and_told(config_path, tmp_path, capsys):
    out = tmp_path / "out"
    assert cli.main(["train", str(config_path), "--out", str(out), "--quiet"]) == 0
    told = capsys.readouterr().out
    assert "mean raw reward " in told and "the optimum is 0.8500" in told
    assert "model_1" in told
    assert f"srl report {out}" in told
    assert [row["round"] for row in read_metrics(out / "metrics.jsonl")] == [0, 1]
    assert yaml_file.load(out / "config.yaml") == yaml_file.load(config_path)
    assert (out / "models" / "model_0" / "config.json").exists()


def test_settings_and_seed_on_the_command_line(config_path, tmp_path):
    out = tmp_path / "out"
    words = ["train", str(config_path), "--out", str(out), "--seed", "7", "--quiet"]
    words += ["--set", "rounds=1", "--set", "algorithm.learning_rate=1e-4", "--set", "seats={}"]
    words += ["--set", "models.sampling.temperature=0.5"]
    assert cli.main(words) == 0
    config = yaml_file.load(out / "config.yaml")
    assert (config.seed, config.rounds, config.algorithm.learning_rate) == (7, 1, 1e-4)
    assert config.models.sampling.temperature == 0.5


def test_progress_is_shown_unless_it_should_be_quiet(config_path, tmp_path, capsys):
    assert (
        cli.main(["train", str(config_path), "--out", str(tmp_path / "a"), "--set", "rounds=1"])
        == 0
    )
    loud = capsys.readouterr()
    assert cli.main(["train", str(config_path), "--out", str(tmp_path / "b"), "--set", "rounds=1",
                     "--quiet"]) == 0  # fmt: skip
    quiet = capsys.readouterr()
    assert len(loud.out + loud.err) > len(quiet.out + quiet.err)


def test_a_run_is_resumed(config_path, tmp_path, capsys):
    parts, whole = tmp_path / "parts", tmp_path / "whole"
    assert cli.main(["train", str(config_path), "--out", str(parts), "--quiet"]) == 0
    capsys.readouterr()
    more = ["--resume", "--out", str(parts), "--set", "rounds=3", "--quiet"]
    assert cli.main(["train", *more]) == 0
    assert "resuming at round 2 of 3" in capsys.readouterr().out
    assert (
        cli.main(["train", str(config_path), "--set", "rounds=3", "--out", str(whole), "--quiet"])
        == 0
    )
    rows = [read_metrics(folder / "metrics.jsonl") for folder in (parts, whole)]
    assert [row["round"] for row in rows[0]] == [0, 1, 2]
    assert [r["models"] for r in rows[0]] == [r["models"] for r in rows[1]]


REFUSED = [
    (["{config}", "--set", "rounds=0"], "rounds: must be 1"),
    (["{config}", "--out", "{config}"], "the run's folder: cannot write"),
    (["{config}", "--set", "environment.name=chess"], "environment: "),
    (["{config}", "--set", "models.base=/no/such/model"], "/no/such/model"),
    (["{config}", "--resume"], "Checkpoint not found"),
    (["/no/such/file.yaml"], "cannot read the configuration /no/such/file.yaml"),
    ([], "give a configuration file, or --resume with --out RUN"),
]


@pytest.mark.parametrize("words, says", REFUSED)
def test_what_is_wrong_is_told_in_one_line(words, says, config_path, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = [str(config_path) if word == "{config}" else word for word in words]
    assert cli.main(["train", *words, "--quiet"]) == 2
    captured = capsys.readouterr()
    [line] = [one for one in captured.err.splitlines() if one.startswith("srl: error: ")]
    assert says in line
    assert not list(tmp_path.rglob("metrics.jsonl"))


REFUSED = {
    "models: {base: runs/nobody}": "models.base: there is no folder runs/nobody",
    "seats: {agent_1: grim_triger}": "seats.agent_1 is 'grim_triger': give one of",
    "seats: {nobody: uniform}": "no agent 'nobody'",
    "logging: {trackers: [mlflow]}": "trackers: mlflow needs mlflow: pip install",
}
