"""Rounds with language models: sampling and learning use the same weights and settings."""

import pytest
import torch

from srl_train.build import build_run
from srl_train.round import train_round
from srl_train.samples import samples_for
from tests.srl_train.run_state import play_round, same, weights


def sampled_and_recomputed(run, number):
    """(log-probability as sampled, as the learner computes it) of every token that was chosen."""
    episodes = play_round(run, number)
    pairs = []
    games = tuple(run.game(episode) for episode in episodes)
    for model, learner in run.learners.items():
        samples, _ = samples_for(
            dict.fromkeys(run.agents_of(model), games),
            group_size=run.config.rollout.group_size, discount=1.0, round_number=number,
        )  # fmt: skip
        learner.begin_update(samples, 0, run.versions[model])
        trainer = learner._trainer
        for sample in samples:
            trainer.samples = [sample]
            ids = torch.tensor(
                [sample.prompt_ids + sample.completion_ids], device=trainer.model.device
            )
            with torch.no_grad():
                logps, *_ = trainer._get_per_token_logps_and_entropies(
                    trainer.model, ids, torch.ones_like(ids), len(sample.completion_ids)
                )
            for told, own, mask in zip(
                sample.logprobs, logps[0].tolist(), sample.mask, strict=True
            ):
                if mask:
                    pairs.append((told, own))
    return pairs


@pytest.mark.parametrize(
    "settings",
    [
        {"models__adapters": {"rank": 4}, "models__constrained": True},
        {"models__sampling__temperature": 0.6},
    ],
    ids=["constrained adapters", "temperature"],
)
def test_sampled_and_recomputed_log_probabilities_agree(settings, short_run):
    run = build_run(short_run(**settings))
    for number in range(2):
        pairs = sampled_and_recomputed(run, number)
        assert len(pairs) >= 16
        assert min(told for told, _ in pairs) < -0.1
        for told, own in pairs:
            assert own == pytest.approx(told, abs=1e-5)
        assert all(one["updated"] for one in train_round(run, number).row["models"].values())


def test_adapters_learn_and_their_base_does_not(short_run):
    run = build_run(short_run(models__adapters={"rank": 4}))
    policy = run.engine.policies_of(run.seats)["agent_0"]
    assert policy is run.engine.policies_of(run.seats)["agent_1"], (
        "one batch answers for all adapters"
    )
    together = policy._backend.model
    bits = {n: p.clone() for n, p in together.named_parameters() if "lora_" not in n}
    start = weights(run)
    assert same(*start.values())
    for number in range(2):
        train_round(run, number)
    now = weights(run)
    assert not same(now["model_0"], start["model_0"]) and not same(*now.values())
    assert same(bits, {n: p for n, p in together.named_parameters() if "lora_" not in n})
    names = {s.agent: s.decision.tokens.model for s in play_round(run, 2)[0].turns[0]}
    assert {seat: (one.adapter, one.version) for seat, one in names.items()} == {
        "agent_0": ("model_0", 2),
        "agent_1": ("model_1", 2),
    }


def test_a_scripted_policy_plays_without_training(short_run):
    run = build_run(short_run(models__count=1, seats={"agent_1": "always_cooperate"}))
    result = train_round(run, 0)
    assert list(result.row["models"]) == ["model_0"] == list(run.learners)
    assert result.row["models"]["model_0"]["updated"]
    assert result.row["models"]["model_0"]["seats"] == ["agent_0"]
    steps = [s for e in result.episodes for s in e.steps_of("agent_1")]
    assert {s.decision.action for s in steps} == {1}
    assert result.episodes[0].seats["agent_1"] == "always_cooperate"


def test_followers_receive_the_leaders_message_before_they_decide(short_run):
    run = build_run(short_run(mode__name="hierarchical", mode__leader="agent_1"))
    decode = run.learners["model_0"]._trainer.processing_class.decode
    result = train_round(run, 0)
    for episode in result.episodes:
        for turn in episode.turns:
            leader = next(s for s in turn if s.agent == "agent_1")
            follower = next(s for s in turn if s.agent == "agent_0")
            words = leader.decision.text
            assert follower.messages == (("agent_1", words),) and leader.messages == ()
            assert f"agent_1 says: {words}" in decode(follower.decision.tokens.prompt_ids)
            assert "says:" not in decode(leader.decision.tokens.prompt_ids)
    row = result.row["models"]
    assert row["model_1"]["shaped_return"] == pytest.approx(
        result.row["environment"]["raw_reward"] * 2 - 0.1 * 2 * row["model_1"]["parse_failures"]
    )


def test_all_randomness_is_from_the_seed(short_run):
    def trained(seed):
        run = build_run(short_run(algorithm__minibatches=2, seed=seed))
        train_round(run, 0)
        return weights(run)

    first = trained(0)
    torch.rand(7)  # what others draw is nothing to a run
    assert same(first, trained(0))
    assert not same(first, trained(1))
