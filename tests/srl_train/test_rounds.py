"""Rounds: what is played, who updates, and that every strategy does what it says."""

import dataclasses
import math

import pytest
import torch

from srl_agents.errors import BackendError
from srl_envs import coop_compete_v0
from srl_envs.errors import EnvError
from srl_train import rounds
from srl_train.assembly import assemble
from srl_train.errors import TrainingError
from srl_train.modes import MODES
from srl_train.rounds import play_groups, run_round
from srl_train.samples import samples_for
from srl_train.updates import STRATEGIES
from tests.srl_train.run_state import optimizers, same, weights


def norm_of_change(before, after):
    return math.sqrt(sum(float(((after[n].double() - t.double()) ** 2).sum()) for n, t in before.items()))


# ---- what is played ------------------------------------------------------------------------------


def plays(episodes):
    return [
        [(s.agent, s.decision.tokens, s.decision.action, s.reward) for t in e.turns for s in t]
        for e in episodes
    ]


def test_a_group_starts_alike_and_goes_its_own_ways(short_run):
    run = assemble(short_run(grpo__group_size=3, grpo__groups_per_round=2))
    episodes = play_groups(run, 4)
    seeds = [e.seed for e in episodes]
    assert seeds[0] == seeds[1] == seeds[2] != seeds[3] == seeds[4] == seeds[5]
    assert len({str(one) for one in plays(episodes)}) == 6
    assert plays(play_groups(run, 4)) == plays(episodes), "the same round again"
    assert plays(play_groups(run, 5)) != plays(episodes)
    assert {e.extra["round"] for e in episodes} == {4}
    assert episodes[0].seats == {"agent_0": "model_0", "agent_1": "model_1"}


def test_another_seed_is_another_course(short_run):
    one, other = (play_groups(assemble(short_run(seed=seed)), 0) for seed in (0, 1))
    assert plays(one) != plays(other)


def test_environments_are_told_the_number_of_their_episode(short_run):
    told = []

    class Told(coop_compete_v0.CoopCompete):
        def reset(self, seed=None, options=None):
            told.append(options["episode"])
            return super().reset(seed=seed, options=options)

    config = short_run(grpo__group_size=2, grpo__groups_per_round=2)
    run = assemble(config, lambda: Told(variant="pair", max_cycles=2))
    for number in range(3):
        play_groups(run, number)
    # Compared members share their number: a group is never half in a warm-up.
    assert told == [0, 0, 2, 2, 4, 4, 6, 6, 8, 8, 10, 10]


def test_who_sampled_is_on_every_turn(short_run):
    run = assemble(short_run())
    for number in range(2):
        run_round(run, number)
    episode = play_groups(run, 2)[0]
    names = {s.agent: s.decision.tokens.model for s in episode.turns[0]}
    assert names == {"agent_0": "model_0@2", "agent_1": "model_1@2"}


# ---- every strategy in every mode ----------------------------------------------------------------


@pytest.mark.parametrize("mode", sorted(MODES))
@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
def test_a_model_is_said_to_update_where_its_weights_changed(strategy, mode, short_run):
    run = assemble(short_run(updates__strategy=strategy, mode__name=mode))
    updates = dict.fromkeys(run.learners, 0)
    for number in range(2):
        before = weights(run)
        row = run_round(run, number).row
        after = weights(run)
        assert (row["round"], row["mode"], row["strategy"]) == (number, mode, strategy)
        assert row["environment"]["episodes"] == 4
        assert row["environment"]["failed_episodes"] == 0
        for model, told in row["models"].items():
            changed = not same(before[model], after[model])
            assert told["updated"] is changed
            updates[model] += changed
            assert told["updates"] == run.versions[model] == updates[model]
            expected = norm_of_change(before[model], after[model])
            assert told["weight_change"] == pytest.approx(expected, rel=1e-4)
            assert told["samples"] == 4
            assert told["staleness"] == {"mean": 0.0, "max": 0}
            for name in ("raw_reward", "raw_return", "shaped_return", "loss", "entropy",
                         "parse_failures", "clip_ratio"):  # fmt: skip
                assert math.isfinite(told[name]), name
            assert ("grad_norm" in told) is ("learning_rate" in told) is changed
    total = sum(updates.values())
    assert total == 2 if strategy == "selective" else total == 4


def test_the_rewards_trained_on_are_the_modes_and_those_shown_are_raw(short_run):
    run = assemble(short_run(mode__cooperation_strength=1.0))
    taken = {}
    for model, buffer in run.buffers.items():
        add = buffer.add
        buffer.add = lambda samples, model=model, add=add: (taken.update({model: samples}), add(samples))
    result = run_round(run, 0)
    penalty = run.view.parse_penalty
    for i, episode in enumerate(result.episodes):
        raw = episode.returns()
        team = sum(raw.values()) / 2
        for seat, model in run.seats.items():
            unread = sum(s.decision.parse_failure is not None for s in episode.steps_of(seat))
            assert taken[model][i].reward == pytest.approx(team - penalty * unread)
    for seat, model in run.seats.items():
        returns = [e.returns()[seat] for e in result.episodes]
        assert result.row["models"][model]["raw_return"] == pytest.approx(sum(returns) / 4)


def test_returns_are_discounted(short_run):
    run = assemble(short_run(grpo__discount=0.0, mode__cooperation_strength=0.0))
    taken = []
    run.buffers["model_0"].add = taken.extend
    episodes = run_round(run, 0).episodes
    for sample, episode in zip(taken, episodes, strict=True):
        first = episode.steps_of("agent_0")[0]
        unread = first.decision.parse_failure is not None
        assert sample.reward == pytest.approx(first.reward - 0.1 * unread)


# ---- strategies ----------------------------------------------------------------------------------


def test_synchronized_models_stay_equal_to_the_bit(short_run):
    config = short_run(updates__strategy="synchronized", grpo__minibatches=2, models__count=2)
    run = assemble(config)
    start = weights(run)["model_0"]
    for number in range(3):
        run_round(run, number)
        now = weights(run)
        assert same(now["model_0"], now["model_1"])
        assert not same(now["model_0"], start)
        start = now["model_0"]
    first, second = optimizers(run).values()
    assert same(first, second)


def test_groups_are_synchronized_apart(short_run):
    run = assemble(
        short_run(
            environment__options={"num_agents": 3, "max_cycles": 2},
            models__count=3,
            updates__strategy="synchronized",
            updates__groups=[["model_0", "model_2"]],
        )
    )
    run_round(run, 0)
    now = weights(run)
    assert same(now["model_0"], now["model_2"])
    assert not same(now["model_0"], now["model_1"])


def test_the_unselected_are_left_to_the_bit_and_wait_no_longer_than_patience(short_run):
    run = assemble(short_run(updates__strategy="selective", updates__patience=1))
    seen = []
    for number in range(4):
        before, moments = weights(run), optimizers(run)
        row = run_round(run, number).row
        after, later = weights(run), optimizers(run)
        scores = {m: one["raw_return"] for m, one in row["models"].items()}
        selected = {m for m, one in row["models"].items() if one["updated"]}
        seen.append(selected)
        assert max(scores, key=scores.get) in selected
        for model in run.learners:
            assert same(before[model], after[model]) is (model not in selected)
            assert same(moments[model], later[model]) is (model not in selected)
    assert all(a | b == {"model_0", "model_1"} for a, b in zip(seen, seen[1:], strict=False))
    assert min(map(len, seen)) == 1, "nobody was ever left out"


@pytest.mark.parametrize("mix", [1.0, 0.25])
def test_federated_weights_are_the_weighted_mean_by_hand(mix, short_run):
    run = assemble(
        short_run(
            updates__strategy="federated",
            updates__federation_temperature=0.3,
            updates__federation_mix=mix,
        )
    )
    learned = {}
    merge = run.strategy.on_weights

    def recorded(before, after, state, context):
        learned.update(weights(run))
        return merge(before, after, state, context)

    run.strategy = run.strategy._replace(on_weights=recorded)
    for number in range(2):
        row = run_round(run, number).row
        assert not same(learned["model_0"], learned["model_1"])
        powers = {m: math.exp(one["raw_return"] / 0.3) for m, one in row["models"].items()}
        shares = {m: power / sum(powers.values()) for m, power in powers.items()}
        assert abs(shares["model_0"] - 0.5) > 1e-6
        for model, after in weights(run).items():
            for name, found in after.items():
                mean = sum(shares[m] * learned[m][name].double() for m in shares)
                expected = mix * mean + (1 - mix) * learned[model][name].double()
                torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-7)
        assert same(*weights(run).values()) is (mix == 1.0)


def updates_per_round(run, number_of_rounds):
    versions, counted = dict(run.versions), []
    for number in range(number_of_rounds):
        run_round(run, number)
        counted.append({m: run.versions[m] - versions[m] for m in versions})
        versions = dict(run.versions)
    return counted


def test_a_ten_times_slower_model_delays_nobody(short_run):
    small = {"grpo__group_size": 2}
    alone = updates_per_round(assemble(short_run(**small)), 10)
    run = assemble(short_run(**small, updates__sample_budget={"model_1": 20}))
    start = weights(run)["model_1"]
    both = updates_per_round(run, 9)
    assert same(weights(run)["model_1"], start)
    row = run_round(run, 9).row
    both.append({m: run.versions[m] - sum(c[m] for c in both) for m in run.versions})
    assert [c["model_0"] for c in both] == [c["model_0"] for c in alone] == [1] * 10
    assert [c["model_1"] for c in both] == [0] * 9 + [1]
    assert row["models"]["model_1"]["samples"] == 20
    assert row["models"]["model_1"]["staleness"] == {"mean": 0.0, "max": 0}
    assert row["models"]["model_1"]["age_rounds"] == {"mean": 4.5, "max": 9}


@pytest.mark.parametrize("bound, updates", [(4, 3), (2, 3), (1, 2), (0, 1)])
def test_staleness_is_recorded_and_bounded(bound, updates, short_run):
    run = assemble(
        short_run(
            grpo__group_size=2,
            grpo__groups_per_round=3,
            updates__sample_budget={"model_0": 2},
            updates__max_staleness=bound,
        )
    )
    for number in range(2):
        row = run_round(run, number).row["models"]["model_0"]
        assert row["updates"] == updates * (number + 1)
        assert row["staleness"] == {"mean": (updates - 1) / 2, "max": updates - 1}
        assert row["staleness"]["max"] <= bound
        assert row["samples"] == 2 * updates
        assert row["samples_dropped_stale"] == (6 - 2 * updates) * (number + 1)


def test_stale_samples_are_trained_on_as_such(short_run):
    run = assemble(
        short_run(grpo__group_size=2, grpo__groups_per_round=2, updates__sample_budget={"model_0": 2})
    )
    learner, seen = run.learners["model_0"], []
    begin = learner.begin_update

    def watched(samples, seed, version):
        steps = begin(samples, seed, version)
        seen.append(([version - s.version for s in samples], learner._trainer.from_older_weights))
        return steps

    learner.begin_update = watched
    run_round(run, 0)
    assert seen == [([0, 0], False), ([1, 1], True)]


def test_a_wave_has_randomness_of_its_own(short_run):
    run = assemble(short_run())
    seeds = {
        rounds._seed(run, number, model, wave)
        for number in range(3)
        for model in run.learners
        for wave in range(3)
    }
    assert len(seeds) == 18


# ---- failures ------------------------------------------------------------------------------------


class Breaks(coop_compete_v0.CoopCompete):
    """Fails in the second turn of the games numbered in `broken`, in the order of their resets."""

    broken: frozenset = frozenset()
    games = 0

    def reset(self, seed=None, options=None):
        self.game, self.turn = type(self).games, 0
        type(self).games += 1
        return super().reset(seed=seed, options=options)

    def step(self, actions):
        self.turn += 1
        if self.turn == 2 and self.game in self.broken:
            raise EnvError(f"game {self.game} broke")
        return super().step(actions)


def broken_run(config, *broken):
    kind = type("Breaks", (Breaks,), {"broken": frozenset(broken)})
    return assemble(config, lambda: kind(variant="pair", max_cycles=2))


def test_failed_episodes_are_counted_and_kept_out_with_their_group(short_run, monkeypatch):
    run = broken_run(short_run(grpo__groups_per_round=2), 5)
    result = run_round(run, 0)
    environment = result.row["environment"]
    assert (environment["episodes"], environment["failed_episodes"]) == (8, 1)
    assert environment["left_out_episodes"] == 4
    assert [e.failure for e in result.episodes] == [None] * 5 + ["EnvError: game 5 broke"] + [None] * 2
    assert {one["samples"] for one in result.row["models"].values()} == {4}
    assert run.totals["model_0"].episodes == 4

    # The group that was kept teaches what it teaches alone.
    kept = broken_run(short_run(grpo__groups_per_round=2))
    halves = lambda episodes, size: (list(episodes[:4]), list(episodes[4:]))  # noqa: E731
    monkeypatch.setattr(rounds, "complete_groups", halves)
    run_round(kept, 0)
    assert same(weights(run), weights(kept))


def test_too_many_failures_stop_the_run(short_run):
    run = broken_run(short_run(max_failed_share=0.25), 1, 2)
    start = weights(run)
    with pytest.raises(TrainingError, match=r"2 of 4 episodes failed, max_failed_share is 0.25; "
                                            r"the first: EnvError: game 1 broke"):  # fmt: skip
        run_round(run, 0)
    assert same(start, weights(run))
    assert run_round(broken_run(short_run(max_failed_share=0.5), 1, 2), 0)


class Flaky:
    """A policy whose backend fails at the calls numbered in `failing`."""

    def __init__(self, policy, failing):
        self.policy, self.failing, self.calls = policy, failing, 0
        self.start = policy.start

    def act(self, seen, states):
        self.calls += 1
        if self.calls - 1 in self.failing:
            raise BackendError("out of memory")
        return self.policy.act(seen, states)


def test_a_round_without_a_whole_group_teaches_nothing_and_the_next_goes_on(short_run):
    run = assemble(short_run(max_failed_share=1.0))
    run.policies = run.policies | {"agent_1": Flaky(run.policies["agent_1"], {1})}
    start = weights(run)
    row = run_round(run, 0).row
    assert row["environment"]["failed_episodes"] == 4
    assert row["environment"]["raw_reward"] is None
    for one in row["models"].values():
        assert (one["updated"], one["samples"], one["raw_return"]) == (False, 0, None)
        assert (one["weight_change"], one["staleness"]) == (0.0, None)
    assert same(start, weights(run))
    assert run.versions == {"model_0": 0, "model_1": 0}
    assert all(one["updated"] for one in run_round(run, 1).row["models"].values())


def test_a_group_that_failed_puts_a_budget_out_of_step_and_old_samples_are_known(short_run):
    config = short_run(grpo__group_size=2, grpo__groups_per_round=2,
                       updates__sample_budget={"model_0": 4})  # fmt: skip
    run = broken_run(config, 0)
    learner, seen = run.learners["model_0"], []
    begin = learner.begin_update

    def watched(samples, seed, version):
        steps = begin(samples, seed, version)
        seen.append(([version - s.version for s in samples], learner._trainer.from_older_weights))
        return steps

    learner.begin_update = watched
    for number in range(3):
        run_round(run, number)
    assert seen == [([0] * 4, False), ([1, 1, 0, 0], True)]


# ---- what plays and what learns are one ----------------------------------------------------------


def sampled_and_recomputed(run, number):
    """(log-probability as sampled, as the learner computes it) of every token that was chosen."""
    episodes = play_groups(run, number)
    pairs = []
    for model, learner in run.learners.items():
        samples = samples_for(
            run.seats_of(model), episodes, [dict.fromkeys(run.seats, 0.0)] * len(episodes),
            round_number=number, version=run.versions[model],
        )  # fmt: skip
        learner.begin_update(samples, 0, run.versions[model])
        trainer = learner._trainer
        for sample in samples:
            ids = torch.tensor([sample.prompt_ids + sample.completion_ids])
            with torch.no_grad():
                logps, *_ = trainer._get_per_token_logps_and_entropies(
                    trainer.model, ids, torch.ones_like(ids), len(sample.completion_ids)
                )
            for told, own, mask in zip(sample.logprobs, logps[0].tolist(), sample.mask, strict=True):
                if mask:
                    pairs.append((told, own))
    return pairs


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"models__constrained": True},
        {"models__adapters": {"rank": 4}},
        {"models__adapters": {"rank": 4}, "models__constrained": True},
        {"models__sampling": {"temperature": 0.6}},
    ],
    ids=["free", "constrained", "adapters", "constrained adapters", "temperature"],
)
def test_what_was_sampled_is_what_the_learner_computes(settings, short_run):
    run = assemble(short_run(**settings))
    for number in range(2):
        pairs = sampled_and_recomputed(run, number)
        assert len(pairs) >= 16
        assert min(told for told, _ in pairs) < -0.1
        for told, own in pairs:
            assert own == pytest.approx(told, abs=1e-5)
        assert all(one["updated"] for one in run_round(run, number).row["models"].values())


def test_constrained_seats_never_write_what_cannot_be_read(short_run):
    run = assemble(short_run(models__constrained=True))
    for number in range(2):
        row = run_round(run, number).row
        assert row["environment"]["parse_failures"] == 0.0
    steps = [s for e in play_groups(run, 2) for t in e.turns for s in t]
    assert {s.decision.text for s in steps} == {"compete", "cooperate"}
    assert all(s.decision.tokens.allowed is not None for s in steps)


def test_adapters_learn_and_their_base_does_not(short_run):
    run = assemble(short_run(models__adapters={"rank": 4}))
    policy = run.policies["agent_0"]
    assert policy is run.policies["agent_1"], "one batch answers for all adapters"
    together = policy._backend.model
    bits = {n: p.clone() for n, p in together.named_parameters() if "lora_" not in n}
    start = weights(run)
    assert same(*start.values())
    for number in range(2):
        run_round(run, number)
    now = weights(run)
    assert not same(now["model_0"], start["model_0"]) and not same(*now.values())
    assert same(bits, {n: p for n, p in together.named_parameters() if "lora_" not in n})
    names = {s.agent: s.decision.tokens.model for s in play_groups(run, 2)[0].turns[0]}
    assert {seat: name.split("/")[1] for seat, name in names.items()} == {
        "agent_0": "model_0@2",
        "agent_1": "model_1@2",
    }


# ---- seats ---------------------------------------------------------------------------------------


def test_a_classic_policy_plays_and_never_learns(short_run):
    run = assemble(short_run(models__count=1, seats={"agent_1": "always_cooperate"}))
    result = run_round(run, 0)
    assert list(result.row["models"]) == ["model_0"] == list(run.learners)
    assert result.row["models"]["model_0"]["updated"]
    assert result.row["models"]["model_0"]["seats"] == ["agent_0"]
    steps = [s for e in result.episodes for s in e.steps_of("agent_1")]
    assert {s.decision.action for s in steps} == {1}
    assert result.episodes[0].seats["agent_1"] == "always_cooperate"


def test_one_model_in_several_seats_has_a_sample_of_each(short_run):
    run = assemble(short_run(environment__options={"num_agents": 3, "max_cycles": 2}))
    row = run_round(run, 0).row
    assert {m: (one["seats"], one["samples"]) for m, one in row["models"].items()} == {
        "model_0": (["agent_0", "agent_2"], 8),
        "model_1": (["agent_1"], 4),
    }


def test_seats_have_their_own_sampling(short_run):
    run = assemble(short_run(models__seat_sampling={"agent_1": {"top_k": 1}}))
    logprobs = {"agent_0": set(), "agent_1": set()}
    for episode in play_groups(run, 0):
        for turn in episode.turns:
            for step in turn:
                logprobs[step.agent] |= set(step.decision.tokens.logprobs)
    assert logprobs["agent_1"] == {0.0}, "only one token is ever left to choose"
    assert min(logprobs["agent_0"]) < -0.1


def test_followers_hear_their_leader_before_they_decide(short_run):
    run = assemble(short_run(mode__name="hierarchical", mode__leader="agent_1"))
    decode = run.learners["model_0"]._trainer.processing_class.decode
    result = run_round(run, 0)
    for episode in result.episodes:
        for turn in episode.turns:
            leader = next(s for s in turn if s.agent == "agent_1")
            follower = next(s for s in turn if s.agent == "agent_0")
            words = leader.decision.text
            assert follower.heard == (("agent_1", words),) and leader.heard == ()
            assert f"agent_1 says: {words}" in decode(follower.decision.tokens.prompt_ids)
            assert "says:" not in decode(leader.decision.tokens.prompt_ids)
    row = result.row["models"]
    assert row["model_1"]["shaped_return"] == pytest.approx(
        result.row["environment"]["raw_reward"] * 2
        - 0.1 * 2 * row["model_1"]["parse_failures"]
    )


def test_a_round_of_the_team_game_names_its_winners(short_run):
    config = short_run(
        environment={"name": "team_battle_v0",
                     "options": {"team_size": 1, "max_cycles": 2, "warmup_episodes": 4}},
    )  # fmt: skip
    run = assemble(config)
    assert run_round(run, 0).row["environment"]["winners"] == {"draw": 4}  # the warm-up
    winners = run_round(run, 1).row["environment"]["winners"]
    assert sum(winners.values()) == 4 and winners != {"draw": 4}


def test_mixed_mode_moves_its_balance(short_run):
    run = assemble(short_run(mode__name="mixed"))
    row = run_round(run, 0).row
    rate = row["environment"]["cooperation_rate"]
    assert row["mode_state"]["balance"] == pytest.approx(0.9 * 0.5 + 0.1 * rate)


def test_a_run_is_the_same_run_twice(short_run):
    def played(**settings):
        run = assemble(short_run(grpo__minibatches=2, **settings))
        return [run_round(run, number).row for number in range(2)], weights(run)

    (rows, first), (_, second), (_, other) = played(), played(), played(seed=1)
    assert same(first, second)
    assert not same(first, other)
    assert [dataclasses.is_dataclass(row) for row in rows] == [False, False]
