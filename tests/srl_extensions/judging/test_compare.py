"""`srl compare`: methods, scores, aggregates and refusals."""

import json

import pytest

from srl_train import cli
from tests.srl_extensions.pages.synthetic_runs import OPTIMUM, UNIFORM, config, write_run


def written(folder, mode, seed, share, **more):
    """Write a run whose final reward is this share of the way from uniform play to the optimum."""
    options = {"environment": {"name": "coop_compete_v0", "options": more}} if more else {}
    reward = UNIFORM + share * (OPTIMUM - UNIFORM)
    told = config(mode, seed, **options)
    return str(write_run(folder, told=told, evaluation={"after": {"raw_reward": reward}}))


def compared(words, tmp_path):
    out = tmp_path / "comparison.json"
    assert cli.main(["compare", *words, "--out", str(out)]) == 0
    return json.loads(out.read_text())


def test_runs_of_one_method_are_its_seeds(tmp_path, capsys):
    shares = {"cooperative": (0.5, 0.6, 0.7, 0.8), "mixed": (0.1, 0.2, 0.3, 0.65)}
    runs = [
        f"{mode}=" + written(tmp_path / f"{mode}_{seed}", mode, seed, share)
        for mode, own in shares.items()
        for seed, share in enumerate(own)
    ]
    record = compared(runs, tmp_path)
    ours, theirs = record["methods"]
    assert ours["name"] == "cooperative"
    assert ours["scores"] == pytest.approx(list(shares["cooperative"]))
    assert ours["interquartile_mean"]["value"] == pytest.approx(0.65)
    assert theirs["interquartile_mean"]["value"] == pytest.approx(0.25)
    told = capsys.readouterr().out
    assert "0.650" in told and "interquartile mean" in told and "fewer than 10 seeds" in told
    assert compared(runs, tmp_path) == record


def test_incomparable_runs_are_refused(tmp_path, capsys):
    one = written(tmp_path / "one", "cooperative", 0, 0.5)
    again = written(tmp_path / "again", "cooperative", 0, 0.5)
    elsewhere = written(tmp_path / "elsewhere", "cooperative", 0, 0.5, max_cycles=3)
    for words, told in (
        ([f"A={one}", f"A={again}"], "A has seed 0 twice"),
        ([f"A={one}", f"B={elsewhere}"], "same environment"),
        (["=runs/x", one], "'=runs/x'"),
        ([str(tmp_path / "nothing"), one], "nothing"),
    ):
        assert cli.main(["compare", *words]) == 2
        assert told in capsys.readouterr().err
