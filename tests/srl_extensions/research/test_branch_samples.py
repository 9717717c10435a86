"""Runs that branch: samples, groups, resuming and refusals."""

import threading

import numpy as np
import pytest

from srl_envs.games import coop_compete as coop_compete_v0
from srl_extensions.research.branching import branch_samples
from srl_train import resume
from srl_train.build import build_run
from srl_train.credit import normalize
from srl_train.errors import ConfigError
from srl_train.round import train_round
from tests.srl_envs.third_party_games import knock_out
from tests.srl_train.run_state import everything, same, weights
from tests.srl_train.test_credit_of_models import watched


def settings(**own):
    return {"rollout__groups_per_round": 2, "preset": "at_grpo", **own}


def test_answers_to_the_same_observation_are_compared(short_run):
    run = build_run(short_run(**settings()))
    batches, start = watched(run), weights(run)
    result = train_round(run, 0)
    episodes = result.episodes
    assert len(episodes) == 2, "one game a start"
    assert result.row["replayed_steps"] == 2 * 2 * (1 + 2 * 3)
    samples = branch_samples("model_0", episodes, 0)
    assert len(samples) == result.row["models"]["model_0"]["samples"] == 2 * 2 * 4
    groups = [samples[at : at + 4] for at in range(0, 16, 4)]
    assert all(len({sample.prompt_ids for sample in group}) == 1 for group in groups)
    expected = [v for g in groups for v in normalize([s.episode_return for s in g], "group")]
    assert any(expected)
    np.testing.assert_allclose(batches[0]["advantages"].numpy(), expected, rtol=1e-4, atol=1e-6)
    assert not same(weights(run)["model_0"], start["model_0"])


def test_sample_context_equals_the_agents_history(short_run):
    run = build_run(short_run(**settings()))
    result = train_round(run, 0)
    for model in run.learners:
        # The trainer's log-probabilities are those of the sampler: of the same context.
        assert result.row["models"][model]["sampler_divergence_max"] < 1e-4
    [agent] = run.agents_of("model_0")
    for number, episode in enumerate(result.episodes):
        first, later = branch_samples("model_0", [episode], 0)[0::4]
        tokens = [step.decision.tokens for step in episode.steps_of(agent)]
        assert later.prompt_ids == (
            first.prompt_ids + tokens[0].completion_ids + tokens[1].prompt_ids
        ), number


def test_late_agent_receives_credit_for_its_own_answers(short_run):
    run = build_run(
        short_run(
            **settings(mode__name="raw", models__constrained=True, rollout__groups_per_round=8)
        ),
        knock_out,
    )
    later = [own for e in train_round(run, 0).episodes for own in e.siblings if own.turn == 1]
    assert {own.agent for own in later} == {"player_1"}
    for own in later:
        assert own.worth == tuple(float(decision.action) for decision in own.decisions)
    assert {worth for own in later for worth in own.worth} == {0.0, 1.0}


def test_resumed_run_is_bit_identical(short_run, tmp_path):
    config = short_run(**settings())
    whole = build_run(config)
    train_round(whole, 0)
    whole.next_round = 1
    resumed = build_run(config)
    resume.load(resumed, tmp_path, resume.save(whole, tmp_path))
    for run in (whole, resumed):
        train_round(run, 1)
    assert same(everything(resumed), everything(whole))


def test_environment_without_copies_is_refused(short_run):
    class Connected(coop_compete_v0.CoopCompete):
        def reset(self, seed=None, options=None):
            self.connection = threading.Lock()
            return super().reset(seed, options)

    with pytest.raises(ConfigError, match=r"rollout.branching: got true, and .* cannot be copi"):
        build_run(short_run(**settings()), lambda: Connected(variant="pair", max_cycles=2))
