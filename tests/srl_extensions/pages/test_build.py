"""Reports and comparisons: the documents in them, and the files they stand in."""

import sys
from dataclasses import replace

import pytest

from srl_agents.episode import Episode
from srl_envs import registry
from srl_extensions.pages.report import write_report
from srl_extensions.pages.transcript import transcript
from srl_train.cli import main
from tests.srl_extensions.pages.pages import blocks, document, words
from tests.srl_extensions.pages.synthetic_runs import config, episode, row, stage_row, write_run

ATTACK = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&amp; </td></table>"


def told_by(path):
    return words(document(path))


def sections(path):
    return [one["title"] for one in document(path)["sections"]]


def test_a_report_shows_everything(tmp_path):
    path = write_report(write_run(tmp_path / "run"))
    assert path == tmp_path / "run/report.html"
    page = told_by(path)
    for said in (
        "coop_compete_v0: 4 models learning together",
        "mode cooperative · updates selective · seed 0",
        "0.763 → 0.848",
        "97.7 %",
        "uniform 0.7625 · optimum 0.85",
        "Raw reward per agent and step",
        "Shaped reward per agent and step",
        "Raw return per episode",
        "Cooperation rate",
        "Parse failures",
        "Rounds in which each model was updated",
        "Weight change per update (L2 norm)",
        "mean staleness",
        "Gradient norm",
        "Round 0",
        "Round 39",
        "max_cycles: 16",
        "torch 2.13.0",
    ):
        assert said in page, said
    assert "incomplete" not in page


def test_seats_are_shown_in_the_words_of_the_environment(tmp_path):
    page = told_by(write_report(write_run(tmp_path / "run")))
    view = registry.make("coop_compete_v0", max_cycles=16).unwrapped.text_view
    step = episode().turns[1][0]
    assert " ".join(view.describe("agent_0", step.observation).split()) in page
    assert " ".join(view.rules("agent_0").split()) in page


def test_no_text_leaves_its_cell(tmp_path):
    sample = episode(answer=lambda turn, seat: ATTACK, failure=f"BackendError: {ATTACK}")
    [first, *others] = sample.turns[0]
    first = replace(first, messages=((ATTACK, ATTACK),), observation=ATTACK)
    sample = replace(sample, seats=dict.fromkeys(sample.seats, ATTACK), turns=((first, *others),))
    told = config(note=ATTACK)
    path = write_report(write_run(tmp_path / "run", episodes=[sample], told=told))
    assert told_by(path).count(ATTACK.split()[0]) > 10
    assert "<script>alert" not in path.read_text("utf-8")
    assert len(list(blocks(document(path), "transcript"))) == 2


def test_parse_failures_are_told_with_the_default_that_was_played():
    shown = transcript(
        episode(3, lambda turn, seat: "I pass" if (turn, seat) == (1, 2) else None), None
    )
    steps = [step for turn in shown.turns for step in turn["steps"]]
    assert [step["failure"] for step in steps if step["failure"]] == ["no choice was named"]
    assert [step["answer"] for step in steps if step["answer"] is not None] == ["I pass"]


@pytest.fixture
def judged(tmp_path, monkeypatch):
    """A run of debates whose configuration names code, which leaves a file behind."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "judge_of_others.py").write_text(
        "from pathlib import Path\n"
        "from srl_envs.tasks.debate import RuleJudge as judge\n"
        f"Path({str(tmp_path / 'ran')!r}).touch()\n"
    )
    sample = Episode("debate_v0", 1, {"pro_0": "model_0", "con_0": "model_0"}, ())
    told = config(environment={"name": "debate_v0", "options": {"judge": "judge_of_others:judge"}})
    yield write_run(tmp_path / "run", episodes=[sample], told=told, environment="debate_v0")
    sys.modules.pop("judge_of_others", None)


def test_a_report_runs_no_code_that_the_run_names(judged, tmp_path):
    text = told_by(write_report(judged))
    assert "shown as numbers: 'judge: judge_of_others:judge' is code" in text
    assert not (tmp_path / "ran").exists()
    assert "You are PRO in a debate" in told_by(write_report(judged, trusted=True))
    assert (tmp_path / "ran").exists()


def test_failed_episodes_and_winners_are_shown(tmp_path):
    rows = [
        row(0, failed_episodes=2, winners={"team_a": 10, "draw": 4}),
        row(1, winners={"team_b": 16}),
    ]
    page = told_by(write_report(write_run(tmp_path / "run", rows=rows)))
    assert "Failed episodes 2 of 32" in page
    assert "team_a team_b first tenth 4 (28.6 %) 10 (71.4 %) 0 (0.0 %)" in page


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("cooperative", "Gap to the optimum closed 97.7 %"),
        ("competitive", "not the objective of this mode"),
    ],
)
def test_the_way_to_the_optimum_is_told_where_it_is_gone(tmp_path, mode, said):
    folder = write_run(tmp_path / "run", told=config(mode))
    text = told_by(write_report(folder))
    assert said in text and ("closed 97.7 %" in text) is (mode == "cooperative")


@pytest.mark.parametrize("gone", ["metrics.jsonl", "summary.json", "config.yaml"])
def test_a_partial_run_gets_a_partial_report(tmp_path, gone):
    folder = write_run(tmp_path / "run")
    (folder / gone).rename(tmp_path / "away")
    assert "This report is incomplete" in told_by(write_report(folder))


def test_a_run_of_stages_alone_has_a_report_of_its_own(tmp_path, capsys):
    measured = {"raw_reward": 0.8, "standard_error": 0.002, "episodes": 64, "per_model": {}}
    folder = write_run(
        tmp_path / "run", rows=[], told=config(rounds=0, sft={"epochs": 2}, dpo={"epochs": 1}),
        stage_rows=[stage_row(0, "sft", 0), stage_row(1, "sft", 1), stage_row(2, "dpo", 0)],
        evaluation={"before": measured, "after_sft": measured | {"raw_reward": 0.8123}},
    )  # fmt: skip
    assert main(["report", str(folder)]) == 0
    page = told_by(folder / "report.html")
    for said in (
        "coop_compete_v0: 4 models, SFT and DPO",
        "Passes over the data SFT 2, DPO 1",
        "SFT loss",
        "DPO loss",
        "after sft 0.8123 0.002",
    ):
        assert said in page, said
    # Nothing is told of rounds that were never meant to be played.
    assert "incomplete" not in page and "Failed episodes" not in page
    assert sections(folder / "report.html") == [
        "Training on data", "Reward", "Models", "Sample episodes", "Configuration",
    ]  # fmt: skip
