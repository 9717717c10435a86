"""Reports of runs: the documents and their HTML files."""

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
        "Weight change per update (L2 norm)",
        "Mean staleness of the samples",
        "grad_norm",
        "round_00000.jsonl",
        "round_00039.jsonl",
        "max_cycles: 16",
    ):
        assert said in page, said
    assert "incomplete" not in page


def test_observations_and_rules_are_shown_as_text(tmp_path):
    page = told_by(write_report(write_run(tmp_path / "run")))
    view = registry.make("coop_compete_v0", max_cycles=16).unwrapped.text_view
    step = episode().turns[1][0]
    assert " ".join(view.describe("agent_0", step.observation).split()) in page
    assert " ".join(view.rules("agent_0").split()) in page


def test_html_in_texts_is_escaped(tmp_path):
    sample = episode(answer=lambda turn, seat: ATTACK, failure=f"BackendError: {ATTACK}")
    [first, *others] = sample.turns[0]
    first = replace(first, messages=((ATTACK, ATTACK),), observation=ATTACK)
    sample = replace(sample, seats=dict.fromkeys(sample.seats, ATTACK), turns=((first, *others),))
    told = config(note=ATTACK)
    path = write_report(write_run(tmp_path / "run", episodes=[sample], told=told))
    assert told_by(path).count(ATTACK.split()[0]) > 10
    assert "<script>alert" not in path.read_text("utf-8")
    assert len(list(blocks(document(path), "transcript"))) == 2


def test_transcript_shows_parse_failures():
    shown = transcript(
        episode(3, lambda turn, seat: "I pass" if (turn, seat) == (1, 2) else None), None
    )
    steps = [step for turn in shown.turns for step in turn["steps"]]
    assert [step["failure"] for step in steps if step["failure"]] == ["no choice was named"]
    assert [step["answer"] for step in steps if step["answer"] is not None] == ["I pass"]


@pytest.fixture
def judged(tmp_path, monkeypatch):
    """Yield a debate run whose configuration names code that creates a file."""
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


def test_report_runs_code_of_the_run_only_if_trusted(judged, tmp_path):
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
    path = write_report(write_run(tmp_path / "run", rows=rows))
    assert "Failed episodes 2 of 32" in told_by(path)
    [wins] = [one for one in blocks(document(path), "panel") if "won" in one["title"]]
    assert {line["label"]: line["y"] for line in wins["lines"]} == {
        "draw": [4, 0], "team_a": [10, 0], "team_b": [0, 16],
    }  # fmt: skip


@pytest.mark.parametrize("gone", ["metrics.jsonl", "summary.json", "config.yaml"])
def test_report_names_missing_files(tmp_path, gone):
    folder = write_run(tmp_path / "run")
    (folder / gone).rename(tmp_path / "away")
    assert "This report is incomplete" in told_by(write_report(folder))


def test_report_of_a_run_without_rounds(tmp_path, capsys):
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
        "SFT loss",
        "DPO loss",
        "after_sft 0.8123 0.002",
    ):
        assert said in page, said
    # The configuration plans no rounds.
    assert "incomplete" not in page and "Failed episodes" not in page
    assert sections(folder / "report.html") == [
        "Training on data", "Reward", "Models", "Sample episodes", "Configuration",
    ]  # fmt: skip
