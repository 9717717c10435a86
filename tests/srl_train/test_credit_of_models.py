"""Assignments in real runs: what the learners are given, what a checkpoint holds."""

import dataclasses

import numpy as np
import pytest
import torch

from srl_train import resume as resuming
from srl_train.build import build_run
from srl_train.credit import normalize
from srl_train.round import train_round
from tests.srl_train.run_state import same, weights


def watched(run, model="model_0"):
    """Every batch that TRL makes of the model's samples from now on."""
    trainer, batches = run.learners[model]._trainer, []
    inner = trainer._generate_and_score_completions

    def make(inputs):
        batches.append(inner(inputs))
        return batches[-1]

    trainer._generate_and_score_completions = make
    return batches


def test_per_agent_is_what_trl_computes(short_run):
    run = build_run(short_run(rollout__groups_per_round=2))
    batches = watched(run)
    kept = train_round(run, 0).episodes
    [seat] = run.agents_of("model_0")
    returns = [sum(run.game(episode)[seat].shaped) for episode in kept]
    expected = [*normalize(returns[:4], "group"), *normalize(returns[4:], "group")]
    assert len(set(expected)) > 2
    # TRL's are float32.
    np.testing.assert_allclose(batches[0]["advantages"].numpy(), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["agent_turn", "difference"])
def test_credit_schemes_train_on_their_advantages(short_run, name):
    run = build_run(short_run(credit__name=name))
    batches, start = watched(run), weights(run)
    inner, given = run.credit.scheme, []

    def assign(groups, seating, state):
        given.append(inner(groups, seating, state))
        return given[-1]

    run.credit = dataclasses.replace(run.credit, scheme=assign)
    train_round(run, 0)
    [seat] = run.agents_of("model_0")
    [(advantages, _)] = given
    for row, game in zip(batches[0]["advantages"], advantages[0], strict=True):
        # Two turns; the tokens of each share its advantage, and all others have none.
        values = torch.tensor(game[seat]).tolist()
        assert set(row.tolist()) <= {0.0, *values}
        assert all(value in row.tolist() for value in values)
    assert not same(weights(run)["model_0"], start["model_0"])


def test_the_average_of_a_role_is_restored_from_a_checkpoint(short_run, tmp_path):
    config = short_run(credit__name="role", credit__decay=0.5)
    straight = build_run(config)
    for number in range(2):
        train_round(straight, number)
    first = build_run(config)
    train_round(first, 0)
    first.next_round = 1
    assert set(first.credit_state) == {"agent_0", "agent_1"}
    resumed = build_run(config)
    resuming.load(resumed, tmp_path, resuming.save(first, tmp_path))
    assert resumed.credit_state == first.credit_state
    train_round(resumed, 1)
    assert resumed.credit_state == straight.credit_state
    assert same(weights(resumed)["model_0"], weights(straight)["model_0"])
