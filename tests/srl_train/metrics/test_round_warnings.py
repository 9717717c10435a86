"""Warnings about the episodes and updates of a round."""

import json
import logging

from srl_envs.errors import EnvError
from srl_envs.games.coop_compete import CoopCompete
from srl_envs.wrappers import CustomRewards
from srl_extensions.pages.run_folder import load
from srl_train.metrics import read_metrics
from srl_train.trainer import Trainer

NOISE = {"temperature": 1000.0, "max_new_tokens": 2}  # all tokens are about equally likely


class Breaks(CoopCompete):
    """Environment whose fourth instance fails at every step."""

    made = 0

    def __init__(self):
        super().__init__(variant="pair", max_cycles=2)
        Breaks.made += 1
        self.broken = Breaks.made == 4

    def step(self, actions):
        if self.broken:
            raise EnvError("\x1b[31mno\nservice " + "x" * 1000)
        return super().step(actions)


def test_failed_episodes_are_reported_once_per_error(short_run, tmp_path, caplog, monkeypatch):
    caplog.set_level(logging.WARNING)
    monkeypatch.setattr(Breaks, "made", 0)
    config = short_run(rollout__groups_per_round=2, max_failed_fraction=1.0)
    Trainer(config, tmp_path, make_env=Breaks).fit()
    rows = read_metrics(tmp_path / "metrics.jsonl")
    failed, left = (rows[0]["environment"][f"{kind}_episodes"] for kind in ("failed", "left_out"))
    assert 0 < failed < left
    [warning] = [one.message for one in caplog.records if "failed" in one.message]
    assert warning.startswith(f"{failed} of 8 episodes failed ({left} are not used for training")
    assert "first error: EnvError: \\x1b[31mno\\nservice xxx" in warning
    assert warning.endswith("x") and len(warning) < 450
    assert load(tmp_path).warnings == (warning,)
    assert [warning in row.get("warnings", []) for row in rows] == [True, False]


def trained(config, folder):
    Trainer(config, folder).fit()
    rows = read_metrics(folder / "metrics.jsonl")
    return json.loads((folder / "summary.json").read_text())["warnings"], rows


def test_parse_failures_are_reported_once(short_run, tmp_path, caplog):
    caplog.set_level(logging.WARNING)
    config = short_run(models__sampling=NOISE)
    warnings, rows = trained(config, tmp_path / "run")
    assert len(warnings) == 2  # one per model, over two rounds
    for model, warning in zip(("model_0", "model_1"), warnings, strict=True):
        assert f"answers of {model} could not be parsed" in warning
        for setting in ("max_new_tokens", "constrained"):
            assert setting in warning
    assert [record.message for record in caplog.records] == warnings
    assert [row.get("warnings", []) for row in rows] == [warnings, []]


def constant_rewards():
    return CustomRewards(CoopCompete(variant="pair", max_cycles=2), lambda answer, context: 1.0)


def test_equal_rewards_are_reported_once(short_run, tmp_path, caplog):
    caplog.set_level(logging.WARNING)
    with Trainer(short_run(), tmp_path, make_env=constant_rewards) as trainer:
        trainer.fit()
        warnings = list(trainer.run.warnings.values())
    rows = read_metrics(tmp_path / "metrics.jsonl")
    assert len(rows) > 1
    assert [one.message for one in caplog.records] == warnings
    assert [row.get("warnings", []) for row in rows] == [warnings, []]
    [warning] = warnings
    assert "round 1 did not change model_0, model_1" in warning
