"""A run whose models' answers cannot be read says so, with what to do about it."""

import json
import logging

import pytest

from srl_extensions.pages.report import notes
from srl_train.metrics import read_metrics
from srl_train.metrics.document import Notes
from srl_train.metrics.headline import in_words
from srl_train.metrics.run_folder import load
from srl_train.trainer import Trainer

NOISE = {"temperature": 1000.0}  # any token is as good as another


def trained(config, folder):
    Trainer(config, folder).fit()
    rows = read_metrics(folder / "metrics.jsonl")
    return json.loads((folder / "summary.json").read_text())["warnings"], rows


@pytest.mark.parametrize("evaluated", [0, 4])
def test_unread_answers_are_warned_of_once(short_run, tmp_path, caplog, evaluated):
    caplog.set_level(logging.WARNING)
    config = short_run(
        models__sampling={**NOISE, "max_new_tokens": 2}, logging__evaluation_episodes=evaluated
    )
    warnings, rows = trained(config, tmp_path / "run")
    assert len(warnings) == 2  # one per model, over an evaluation, two rounds and another one
    for model, told in zip(("model_0", "model_1"), warnings, strict=True):
        assert f"% of {model}'s " in told and "answers could not be read" in told
        assert "cut off at 2 tokens: raise max_new_tokens (in models.sampling)" in told
        assert "or set constrained (in models) to true" in told
    assert [record.message for record in caplog.records] == warnings
    assert [row.get("warnings", []) for row in rows] == [[] if evaluated else warnings, []]
    run = load(tmp_path / "run")
    assert run.warnings == tuple(warnings)
    assert in_words(run)[0] == f"warning: {warnings[0]}"
    assert notes(run)[0] == Notes("Warnings of the run.", tuple(warnings))


def test_answers_that_end_by_themselves_are_shown(short_run, tmp_path, monkeypatch):
    monkeypatch.setattr("srl_train.metrics.unreadable_answers._cut", lambda *_: False)
    warnings, _ = trained(short_run(models__sampling={**NOISE, "max_new_tokens": 2}), tmp_path)
    assert all("such as '" in told and "max_new_tokens" not in told for told in warnings)
    assert len(warnings) == 2


def test_a_run_that_reads_its_answers_is_not_warned(short_run, tmp_path):
    warnings, rows = trained(short_run(), tmp_path / "run")
    assert warnings == [] and not any("warnings" in row for row in rows)
