"""Rounds: what is played and told, what failures spoil, and that a model updates where told."""

import math
from itertools import cycle

import pytest

from srl_agents.errors import BackendError
from srl_envs.errors import EnvError
from srl_envs.games import coop_compete as coop_compete_v0
from srl_train import round as train_round_module
from srl_train.build import build_run
from srl_train.errors import TrainingError
from srl_train.modes import MODES
from srl_train.round import train_round
from srl_train.updates import STRATEGIES
from tests.srl_train.engine.run_state import play_round, replace_policies, same, weights


def norm_of_change(before, after):
    return math.sqrt(
        sum(float(((after[n].double() - t.double()) ** 2).sum()) for n, t in before.items())
    )


def plays(episodes):
    return [
        [(s.agent, s.decision.tokens, s.decision.action, s.reward) for t in e.turns for s in t]
        for e in episodes
    ]


def test_a_group_starts_alike_and_goes_its_own_ways(short_run):
    run = build_run(short_run(rollout__group_size=3, rollout__groups_per_round=2))
    episodes = play_round(run, 4)
    seeds = [e.seed for e in episodes]
    assert seeds[0] == seeds[1] == seeds[2] != seeds[3] == seeds[4] == seeds[5]
    assert len({str(one) for one in plays(episodes)}) == 6
    assert plays(play_round(run, 4)) == plays(episodes), "the same round again"
    assert plays(play_round(run, 5)) != plays(episodes)
    assert {e.extra["round"] for e in episodes} == {4}
    assert episodes[0].seats == {"agent_0": "model_0", "agent_1": "model_1"}


def test_another_seed_is_another_course(short_run):
    one, other = (play_round(build_run(short_run(seed=seed)), 0) for seed in (0, 1))
    assert plays(one) != plays(other)


def test_environments_are_told_the_number_of_their_episode(short_run):
    told = []

    class Told(coop_compete_v0.CoopCompete):
        def reset(self, seed=None, options=None):
            told.append(options["episode"])
            return super().reset(seed=seed, options=options)

    config = short_run(rollout__group_size=2, rollout__groups_per_round=2)
    run = build_run(config, lambda: Told(variant="pair", max_cycles=2))
    for number in range(3):
        play_round(run, number)
    # Compared members share their number: a group is never half in a warm-up.
    assert told == [0, 0, 2, 2, 4, 4, 6, 6, 8, 8, 10, 10]


def test_who_sampled_is_on_every_turn(short_run):
    run = build_run(short_run())
    for number in range(2):
        train_round(run, number)
    episode = play_round(run, 2)[0]
    names = {s.agent: str(s.decision.tokens.model) for s in episode.turns[0]}
    assert names == {"agent_0": "model_0@2", "agent_1": "model_1@2"}


@pytest.mark.parametrize(
    ("strategy", "mode"),
    # In the pair game both earn the same, so a contest teaches nothing.
    [*zip(cycle(sorted(STRATEGIES)), sorted(set(MODES) - {"zero_sum"}), strict=False)],
)
def test_a_model_is_said_to_update_where_its_weights_changed(strategy, mode, short_run):
    run = build_run(short_run(updates__strategy=strategy, mode__name=mode))
    updates = dict.fromkeys(run.learners, 0)
    for number in range(2):
        before = weights(run)
        row = train_round(run, number).row
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


@pytest.mark.parametrize("budget, updates", [(4, 1), (2, 2), (8, 0)])
def test_an_update_copies_the_weights_once_and_a_round_none_besides(
    budget, updates, short_run, monkeypatch
):
    config = short_run(rollout__group_size=2, rollout__groups_per_round=2,
                       updates__sample_budget={"model_0": budget})  # fmt: skip
    run, copied = build_run(config), []
    copy = train_round_module.snapshot
    monkeypatch.setattr(train_round_module, "snapshot", lambda own: copied.append(own) or copy(own))
    before = weights(run)
    row = train_round(run, 0).row
    assert len(copied) == updates + 1  # and the other model's
    for model, told in row["models"].items():
        assert told["updates"] == (updates if model == "model_0" else 1)
        expected = norm_of_change(before[model], weights(run)[model])
        assert told["weight_change"] == pytest.approx(expected, rel=1e-4), "from the first update"


def test_the_rewards_trained_on_are_the_modes_and_those_shown_are_raw(short_run):
    run = build_run(short_run(mode__cooperation_strength=1.0))
    taken = {}
    for model, buffer in run.buffers.items():
        add = buffer.add
        buffer.add = lambda samples, model=model, add=add: (
            taken.update({model: samples}),
            add(samples),
        )
    result = train_round(run, 0)
    penalty = run.view.parse_penalty
    for i, episode in enumerate(result.episodes):
        raw = episode.returns()
        team = sum(raw.values()) / 2
        for seat, model in run.seats.items():
            unread = sum(s.decision.parse_failure is not None for s in episode.steps_of(seat))
            assert taken[model][i].episode_return == pytest.approx(team - penalty * unread)
    for seat, model in run.seats.items():
        returns = [e.returns()[seat] for e in result.episodes]
        assert result.row["models"][model]["raw_return"] == pytest.approx(sum(returns) / 4)


def test_returns_are_discounted(short_run):
    run = build_run(short_run(rollout__discount=0.0, mode__cooperation_strength=0.0))
    taken = []
    run.buffers["model_0"].add = taken.extend
    episodes = train_round(run, 0).episodes
    for sample, episode in zip(taken, episodes, strict=True):
        first = episode.steps_of("agent_0")[0]
        unread = first.decision.parse_failure is not None
        assert sample.episode_return == pytest.approx(first.reward - 0.1 * unread)


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
    return build_run(config, lambda: kind(variant="pair", max_cycles=2))


def test_failed_episodes_are_counted_and_kept_out_with_their_group(short_run, monkeypatch):
    run = broken_run(short_run(rollout__groups_per_round=2), 5)
    result = train_round(run, 0)
    environment = result.row["environment"]
    assert (environment["episodes"], environment["failed_episodes"]) == (8, 1)
    assert environment["left_out_episodes"] == 4
    assert [e.failure for e in result.episodes] == [None] * 5 + ["EnvError: game 5 broke"] + [
        None
    ] * 2
    assert {one["samples"] for one in result.row["models"].values()} == {4}
    assert run.totals["model_0"].episodes == 4

    # The group that was kept teaches what it teaches alone.
    kept = broken_run(short_run(rollout__groups_per_round=2))
    halves = lambda episodes, size: (list(episodes[:4]), list(episodes[4:]))  # noqa: E731
    monkeypatch.setattr(train_round_module, "complete_groups", halves)
    train_round(kept, 0)
    assert same(weights(run), weights(kept))


def test_too_many_failures_stop_the_run(short_run):
    run = broken_run(short_run(max_failed_fraction=0.25), 1, 2)
    start = weights(run)
    with pytest.raises(TrainingError, match=r"2 of 4 episodes failed, max_failed_fraction is 0.25; "
                                            r"the first: EnvError: game 1 broke"):  # fmt: skip
        train_round(run, 0)
    assert same(start, weights(run))
    assert train_round(broken_run(short_run(max_failed_fraction=0.5), 1, 2), 0)


class Flaky:
    """A policy whose backend fails at the calls numbered in `failing`."""

    def __init__(self, policy, failing):
        self.policy, self.failing, self.calls = policy, failing, 0
        self.start, self.leave = policy.start, policy.leave

    async def act(self, seen, states):
        self.calls += 1
        if self.calls - 1 in self.failing:
            raise BackendError("out of memory")
        return await self.policy.act(seen, states)


def test_a_round_without_a_whole_group_teaches_nothing_and_the_next_goes_on(short_run):
    run = build_run(short_run(max_failed_fraction=1.0))
    agent_1 = run.engine.policies_of(run.seats)["agent_1"]
    replace_policies(run, agent_1=Flaky(agent_1, {4, 5, 6, 7}))
    start = weights(run)
    row = train_round(run, 0).row
    assert row["environment"]["failed_episodes"] == 4
    assert row["environment"]["raw_reward"] is None
    for one in row["models"].values():
        assert (one["updated"], one["samples"], one["raw_return"]) == (False, 0, None)
        assert (one["weight_change"], one["staleness"]) == (0.0, None)
    assert same(start, weights(run))
    assert run.versions == {"model_0": 0, "model_1": 0}
    assert all(one["updated"] for one in train_round(run, 1).row["models"].values())


def test_a_group_that_failed_puts_a_budget_out_of_step_and_old_samples_are_known(short_run):
    config = short_run(rollout__group_size=2, rollout__groups_per_round=2,
                       updates__sample_budget={"model_0": 4})  # fmt: skip
    run = broken_run(config, 0)
    learner, seen = run.learners["model_0"], []
    begin = learner.begin_update

    def watched(samples, seed, version):
        steps = begin(samples, seed, version)
        seen.append(([version - s.version for s in samples], learner._trainer.sampled_elsewhere))
        return steps

    learner.begin_update = watched
    for number in range(3):
        train_round(run, number)
    assert seen == [([0] * 4, False), ([1, 1, 0, 0], True)]


class PaysNothingReal(coop_compete_v0.CoopCompete):
    def step(self, actions):
        seen, rewards, *rest = super().step(actions)
        return seen, {**rewards, "agent_1": float("nan")}, *rest


def test_a_reward_that_is_no_number_stops_the_run(short_run):
    run = build_run(short_run(), lambda: PaysNothingReal(variant="pair", max_cycles=2))
    with pytest.raises(TrainingError, match="got nan for agent_1 in step 0 of the episode"):
        train_round(run, 0)
