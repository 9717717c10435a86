import json
import math
import os
from pathlib import Path

import pytest

from srl_train.metrics.errors import MetricsError, RunFolderError
from srl_train.metrics.headline import (
    change,
    change_in_words,
    edges,
    ends,
    headline,
    in_words,
)
from srl_train.metrics.run_folder import load, sample_label
from tests.srl_extensions.pages.synthetic_runs import (
    OPTIMUM,
    UNIFORM,
    config,
    row,
    stage_row,
    write_run,
)


def few(count):
    return [row(number) for number in range(count)]


def test_a_finished_run_is_complete(tmp_path):
    run = load(write_run(tmp_path / "run"))
    assert run.notes == ()
    assert run.rounds == list(range(40))
    assert (run.environment, run.mode, run.strategy, run.seed) == (
        "coop_compete_v0", "cooperative", "selective", "0",
    )  # fmt: skip
    assert run.models == ("model_0", "model_1", "model_2", "model_3")
    assert [sample_label(sample.path) for sample in run.samples] == ["round 0", "round 39"]
    assert run.baselines == {"uniform": UNIFORM, "optimum": OPTIMUM}


def test_series_follow_keys_and_tell_gaps(tmp_path):
    rows = few(3)
    rows[1]["environment"]["raw_reward"] = None
    del rows[2]["models"]["model_3"]
    run = load(write_run(tmp_path / "run", rows=rows))
    assert run.series("round") == [0, 1, 2]
    assert math.isnan(run.series("environment", "raw_reward")[1])
    assert math.isnan(run.series("models", "model_3", "loss")[2])
    assert math.isnan(run.series("models", "model_3", "loss", "deeper")[0])
    assert run.total("models", "model_3", "samples") == 32


@pytest.mark.parametrize(
    ("gone", "note"),
    [
        ("metrics.jsonl", "no round has ended"),
        ("summary.json", "Baselines and evaluations are missing"),
        ("config.yaml", "config.yaml is not there"),
    ],
)
def test_a_missing_file_is_noted(tmp_path, gone, note):
    folder = write_run(tmp_path / "run")
    (folder / gone).unlink()
    assert note in " ".join(load(folder).notes)


def test_a_run_under_way_says_how_far_it_is(tmp_path):
    folder = write_run(tmp_path / "run", rows=few(3))
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"round": 3, "env')
    run = load(folder)
    assert run.rounds == [0, 1, 2]
    assert "3 of 40 rounds have been played." in run.notes
    assert any("being written" in note for note in run.notes)


def test_rounds_written_twice_are_shown_once_and_told(tmp_path):
    again = row(1, raw_reward=0.5)
    run = load(write_run(tmp_path / "run", rows=[*few(2), again], told=config() | {"rounds": 2}))
    assert run.rounds == [0, 1]
    assert run.series("environment", "raw_reward")[1] == 0.5
    assert any("written twice" in note for note in run.notes)


@pytest.mark.parametrize(
    ("name", "content", "error", "says"),
    [
        ("summary.json", "{", RunFolderError, "summary.json is not JSON"),
        ("summary.json", "[]", RunFolderError, "holds a list"),
        ("summary.json", '{"baselines": {"uniform": "a"}}', RunFolderError, "baselines is"),
        (
            "metrics.jsonl",
            '{"round": 0, "environment": {}, "models": {"model_0": 3}}\n',
            RunFolderError,
            "line 1 holds 3 for model_0",
        ),
        ("metrics.jsonl", "x\n{}\n", MetricsError, "line 1 is damaged"),
        (
            "metrics.jsonl",
            '{"not_finite": [[["a", "b"], "nan"]]}\n',
            MetricsError,
            "names no place",
        ),
        ("summary.json", '{"evaluation": "x"}', RunFolderError, "evaluation is 'x', no mapping"),
        (
            "metrics.jsonl",
            f'{{"round": {10**400}, "environment": {{}}, "models": {{}}}}\n',
            RunFolderError,
            "line 1 is not a round",
        ),
        *(
            (
                "metrics.jsonl",
                f'{{"round": 0, "environment": {{{own}}}, "models": {{{models}}}, "a": 1{more}}}\n',
                RunFolderError,
                says,
            )
            for own, models, more, says in (
                ('"winners": {"a": "b"}', "", "", "line 1: winners is"),
                ("", "", ', "seconds": {"a": "b"}', "seconds is"),
                ("", "", ', "by_environment": 5', "by_environment is 5"),
                ("", '"m": {"seats": 5}', "", "seats of m is no list"),
            )
        ),
        ("summary.json", '{"a": ' * 1000 + "1" + "}" * 1000, RunFolderError, "nested deeper"),
    ],
)
def test_damage_is_told_in_one_line(tmp_path, name, content, error, says):
    folder = write_run(tmp_path / "run")
    (folder / name).write_text(content)
    with pytest.raises(error, match=says) as told:
        load(folder)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("name", ["metrics.jsonl", "stages.jsonl", "summary.json", "config.yaml"])
@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_no_plain_file_is_not_read(tmp_path, name, make):
    folder = write_run(tmp_path / "run")
    (folder / name).unlink(missing_ok=True)
    make(folder / name)
    with pytest.raises((RunFolderError, MetricsError), match=f"{name}.*not a plain file"):
        load(folder)


def test_episodes_that_are_no_plain_files_are_left_out(tmp_path):
    folder = write_run(tmp_path / "run")
    os.mkfifo(folder / "episodes/a.jsonl")
    (folder / "episodes/z.jsonl").mkdir()
    assert [sample_label(sample.path) for sample in load(folder).samples] == ["round 0", "round 39"]


def test_no_run_is_an_error(tmp_path):
    with pytest.raises(RunFolderError, match="no run at"):
        load(tmp_path / "nowhere")
    with pytest.raises(RunFolderError, match="holds no run"):
        load(tmp_path)


KNOWN = {"uniform": UNIFORM, "optimum": OPTIMUM}


def measured(reward, error=0.001):
    return {"raw_reward": reward, "standard_error": error}


@pytest.mark.parametrize(
    ("before", "after", "mode", "said"),
    [
        (measured(0.7937), measured(0.7937), "cooperative", "the mean reward did not change"),
        (measured(0.7937), measured(0.7947), "cooperative", "no change beyond chance"),
        (measured(0.7937), measured(0.7637), "cooperative", "it fell by 0.0300"),
        (measured(0.7937), measured(0.8437), "competitive", "not what this mode trains for"),
        (measured(0.7937), measured(0.7137), "mixed", "not what this mode trains for"),
        (measured(0.8495), measured(0.8535), "hierarchical", "it rose by 0.0040"),  # there already
        (measured(0.7937, None), measured(0.8437, None), "cooperative", "the optimum is 0.8500"),
    ],
)
def test_nothing_is_called_learned_where_nothing_was(before, after, mode, said):
    told = change_in_words(change(before, after, KNOWN, mode), KNOWN, mode)
    assert said in " ".join(told)
    assert "learned" not in " ".join(told) and "nan" not in " ".join(told)


def test_the_headline_is_the_evaluations_where_there_are_some(tmp_path):
    run = load(write_run(tmp_path / "run"))
    head = headline(run)
    assert (head.before, head.after) == (0.763, 0.848)
    assert in_words(run) == [
        "coop_compete_v0: mean raw reward 0.7630 -> 0.8480 (evaluation before and after training)",
        "it rose by 0.0850 (+- 0.0014 standard error of the difference)",
        "uniform play earns 0.7625, the optimum is 0.8500: 97.7% (+- 1.1%) of the way there from "
        "0.7630 was learned",
    ]
    # Nothing in the evaluations about cooperation: the first and last tenth of the rounds.
    assert ends(run, "cooperation_rate") == edges(run.series("environment", "cooperation_rate"))


def test_nothing_recorded_is_said(tmp_path):
    folder = write_run(tmp_path / "run", evaluation={})
    (folder / "metrics.jsonl").unlink()
    assert in_words(load(folder)) == ["coop_compete_v0: no reward is recorded yet"]
    assert json.loads((folder / "summary.json").read_text())["evaluation"] == {}


@pytest.mark.parametrize(
    "wrong", [{"stage": "$\\frac{1}$"}, {"stage": ["sft"]}, {"models": 3}, {"round": None}]
)
def test_a_line_that_is_no_pass_of_a_stage_is_refused(tmp_path, wrong):
    folder = write_run(tmp_path / "run", stage_rows=[stage_row(0, "sft", 0) | wrong])
    with pytest.raises(RunFolderError, match="line 1 is not a pass of a stage"):
        load(folder)


def test_passes_of_stages_are_read_in_order_and_once(tmp_path):
    rows = [stage_row(1, "dpo", 0), stage_row(0, "sft", 0), stage_row(0, "sft", 0)]
    run = load(write_run(tmp_path / "run", rows=[], stage_rows=rows, told=config(rounds=0)))
    assert [(name, len(passes)) for name, passes in run.stages.items()] == [("sft", 1), ("dpo", 1)]
    assert run.models == ("model_0", "model_1", "model_2", "model_3") and run.notes == ()
