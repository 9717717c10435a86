"""Reader of run folders, and the headline of a run."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from srl_extensions.pages.report import cards, terminal_summary
from srl_extensions.pages.run_folder import edges, load
from srl_train.errors import MetricsError, RunFolderError
from srl_train.metrics.tables import number
from srl_train.trainer import Trainer
from tests.srl_extensions.pages.synthetic_runs import (
    OPTIMUM,
    UNIFORM,
    config,
    write_run,
)


def test_a_finished_run_is_complete(tmp_path):
    run = load(write_run(tmp_path / "run"))
    assert run.notes == []
    assert run.rounds == list(range(40))
    assert (run.environment, run.mode, run.strategy, run.seed) == (
        "coop_compete_v0", "cooperative", "selective", "0",
    )  # fmt: skip
    assert run.models == ("model_0", "model_1", "model_2", "model_3")
    assert [path.name for path in run.sample_files] == ["round_00000.jsonl", "round_00039.jsonl"]
    assert run.baselines == {"uniform": UNIFORM, "optimum": OPTIMUM}


@pytest.mark.parametrize(
    ("gone", "note"),
    [
        ("metrics.jsonl", "0 of 40 rounds"),
        ("summary.json", "Baselines and evaluations are not shown"),
        ("config.yaml", "config.yaml is missing"),
    ],
)
def test_a_missing_file_is_noted(tmp_path, gone, note):
    folder = write_run(tmp_path / "run")
    (folder / gone).unlink()
    assert note in " ".join(load(folder).notes)


ROUND = '{{"round": {}, "environment": {{{}}}, "models": {{{}}}, "a": 1{}}}\n'


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("summary.json", "{", "summary.json is damaged"),
        ("summary.json", "[]", "summary.json"),
        ("summary.json", '{"baselines": {"uniform": "a"}}', "baselines.uniform"),
        ("summary.json", '{"evaluation": "x"}', "evaluation"),
        ("summary.json", '{"a": ' * 1000 + "1" + "}" * 1000, "nested deeper"),
        ("config.yaml", "a: [", "config.yaml is damaged"),
        ("metrics.jsonl", "x\n{}\n", "line 1 is damaged"),
        ("metrics.jsonl", ROUND.format(0, "", '"model_0": 3', ""), "line 1: models.model_0"),
        ("metrics.jsonl", ROUND.format(10**400, "", "", ""), "line 1: round"),
        ("metrics.jsonl", ROUND.format(0, '"winners": {"a": "b"}', "", ""), "winners.a"),
        ("metrics.jsonl", ROUND.format(0, "", "", ', "seconds": {"a": "b"}'), "seconds"),
        ("metrics.jsonl", ROUND.format(0, "", '"m": {"seats": 5}', ""), "models.m.seats"),
        ("stages.jsonl", '{"round": 0, "stage": ["sft"], "models": {}}\n', "line 1: stage"),
        ("stages.jsonl", '{"round": 0, "stage": "sft", "models": 3}\n', "line 1: models"),
    ],
)
def test_damaged_files_are_reported_in_one_line(tmp_path, name, content, says):
    folder = write_run(tmp_path / "run")
    (folder / name).write_text(content)
    with pytest.raises((RunFolderError, MetricsError), match=says) as told:
        load(folder)
    assert len(str(told.value)) < 500


@pytest.mark.parametrize("name", ["metrics.jsonl", "stages.jsonl", "summary.json", "config.yaml"])
@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_links_folders_and_pipes_are_refused(tmp_path, name, make):
    folder = write_run(tmp_path / "run", rows=[])
    (folder / name).unlink(missing_ok=True)
    make(folder / name)
    with pytest.raises(MetricsError, match=f"{name} must be a regular file"):
        load(folder)


@pytest.mark.parametrize("name", ["nowhere", "."])
def test_no_run_is_an_error(tmp_path, name):
    with pytest.raises(RunFolderError, match="no run in"):
        load(tmp_path / name)


def measured(reward, error=0.001):
    return {"raw_reward": reward, "standard_error": error}


@pytest.mark.parametrize(
    ("before", "after", "mode", "said"),
    [
        (measured(0.7937), measured(0.7937), "cooperative", "change 0, standard error 0.0014, may"),
        (measured(0.7937), measured(0.7947), "cooperative", "may be chance"),
        (measured(0.7937), measured(0.7637), "cooperative", "change -0.03, standard error"),
        (measured(0.7937), measured(0.8437), "competitive", "change 0.05, standard error"),
        (measured(0.8495), measured(0.8535), "hierarchical", "change 0.004,"),  # there already
        (measured(0.7937, None), measured(0.8437, None), "cooperative", "change 0.05"),
    ],
)
def test_headline_without_significant_gain(tmp_path, before, after, mode, said):
    evaluation = {"before": before, "after": after}
    folder = write_run(tmp_path / "run", rows=[], told=config(mode), evaluation=evaluation)
    found = {name: (value, more) for name, value, more in cards(load(folder))}
    assert said in str(found) and "nan" not in str(found)
    assert list(found) == ["Raw reward per agent and step"]


def test_headline_excludes_scripted_partners(short_run, tmp_path):
    seats, folder = {"agent_1": "always_compete"}, tmp_path / "run"
    Trainer(short_run(models__count=1, seats=seats, logging__evaluation_episodes=2), folder).fit()
    run, label = load(folder), "Raw reward per step of the agents that learn"
    evaluated = [run.evaluated(when, "per_model", "model_0") for when in ("before", "after")]
    rounds = edges(run.series("models", "model_0", "raw_reward"))
    for found, ends in ((run, evaluated), (replace(run, summary={}), rounds)):
        assert cards(found)[0][:2] == (label, " → ".join(map(number, ends)))


def test_headline_uses_the_evaluations(tmp_path):
    run = load(write_run(tmp_path / "run"))
    closed = "Gap to the optimum closed: 97.7 %"
    assert terminal_summary(run).splitlines()[:4] == [
        "coop_compete_v0: 4 models learning together",
        "  Raw reward per agent and step: 0.763 → 0.848 (evaluations before → after training · "
        "change 0.085, standard error 0.0014)",
        f"  {closed} (uniform 0.7625 · optimum 0.85)",
        "  Cooperation rate: 56.6 % → 97.8 % (start → end of training)",
    ]
    # The evaluations have no cooperation rate: the first and last tenth of the rounds are used.
    start, end = edges(run.series("environment", "cooperation_rate"))
    assert f"{start:.1%} → {end:.1%}".replace("%", " %") in terminal_summary(run)
