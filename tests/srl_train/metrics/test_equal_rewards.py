"""A run that has nothing to learn from says why, once."""

import logging
from dataclasses import replace

import pytest

from srl_envs.games.coop_compete import CoopCompete
from srl_envs.wrappers import CustomRewards
from srl_train.data.samples import TokenSample
from srl_train.metrics import read_metrics
from srl_train.metrics.equal_rewards import _all_equal
from srl_train.trainer import Trainer


def pays_all_alike():
    game = CoopCompete(variant="pair", max_cycles=2)
    return CustomRewards(game, lambda answer, context: 1.0)


@pytest.mark.parametrize("alike", [True, False])
def test_equal_rewards_are_told_once(short_run, tmp_path, caplog, alike):
    caplog.set_level(logging.WARNING)
    make_env = pays_all_alike if alike else None
    with Trainer(short_run(), tmp_path, make_env=make_env) as trainer:
        trainer.fit()
        told = [line for line in trainer.run.warnings.values() if "taught" in line]
    rows = read_metrics(tmp_path / "metrics.jsonl")
    updates = {model: row["updates"] for model, row in rows[-1]["models"].items()}
    assert len(rows) > 1 and all((number == 0) == alike for number in updates.values())
    assert len(told) == alike
    assert [one.message for one in caplog.records if "taught" in one.message] == told
    if alike:
        assert told[0].startswith("round 1 taught model_0, model_1 nothing: all games that are ")
        assert rows[0]["warnings"] == told and "warnings" not in rows[1]


def test_answers_that_are_all_left_out_as_cut_off_are_told_of_once(short_run, tmp_path):
    config = short_run(preset="dapo", models__sampling={"max_new_tokens": 1})
    with Trainer(config, tmp_path) as trainer:
        trainer.fit()
    rows = read_metrics(tmp_path / "metrics.jsonl")
    assert not any(own["updates"] for own in rows[-1]["models"].values())
    [told] = [line for row in rows for line in row.get("warnings", ())]
    assert "nothing: every answer was cut off" in told


def test_samples_are_compared_within_their_group():
    one = TokenSample(
        prompt_ids=(1,), completion_ids=(2,), mask=(1,), logprobs=(-1.0,), allowed=None,
        turns=((0, 1),), elapsed=(1,), rewards=(1.0,), episode_return=1.0, group=(0, 0, "a"),
        version=0,
    )  # fmt: skip
    other = replace(one, episode_return=2.0)
    assert _all_equal([one, one, other, other], 2)  # an agent's of one start: two situations
    assert not _all_equal([one, other], 2)
    assert not _all_equal([replace(one, advantages=(0.5,))], 1)
    assert _all_equal([replace(one, advantages=(0.0,))], 1)
