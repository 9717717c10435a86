"""One training round: episodes, failures, recorded metrics, and agents that act in turns."""

import math
from itertools import cycle

import numpy as np
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
from tests.srl_envs.third_party_games import knock_out, nim
from tests.srl_train.run_state import play_round, replace_policies, same, weights


def norm_of_change(before, after):
    return math.sqrt(
        sum(float(((after[n].double() - t.double()) ** 2).sum()) for n, t in before.items())
    )


def plays(episodes):
    return [
        [(s.agent, s.decision.tokens, s.decision.action, s.reward) for t in e.turns for s in t]
        for e in episodes
    ]


def test_episodes_of_a_group_share_the_start_and_differ_in_sampling(short_run):
    run = build_run(short_run(rollout__group_size=3, rollout__groups_per_round=2))
    episodes = play_round(run, 4)
    seeds = [e.seed for e in episodes]
    assert seeds[0] == seeds[1] == seeds[2] != seeds[3] == seeds[4] == seeds[5]
    assert len({str(one) for one in plays(episodes)}) == 6
    assert plays(play_round(run, 4)) == plays(episodes), "the same round again"
    assert plays(play_round(run, 5)) != plays(episodes)
    assert {e.extra["round"] for e in episodes} == {4}
    assert episodes[0].seats == {"agent_0": "model_0", "agent_1": "model_1"}


def test_environments_receive_the_number_of_their_episode(short_run):
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


@pytest.mark.parametrize(
    ("strategy", "mode"),
    # In the pair game both earn the same, so a contest teaches nothing.
    [*zip(cycle(sorted(STRATEGIES)), sorted(set(MODES) - {"zero_sum"}), strict=False)],
)
def test_recorded_updates_match_the_changes_of_weights(strategy, mode, short_run):
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


def test_training_uses_shaped_rewards_and_records_raw_ones(short_run):
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


def test_groups_of_failed_episodes_are_left_out(short_run, monkeypatch):
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


def test_a_round_without_a_complete_group_updates_nothing(short_run):
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


def test_an_agent_without_steps_in_some_episodes_trains_on_complete_groups(short_run):
    run = build_run(
        short_run(
            rollout__group_size=2,
            rollout__groups_per_round=12,
            models__constrained=True,
            algorithm__name="ppo",
        ),
        knock_out,
    )
    result = train_round(run, 0)
    first, second = (result.row["models"][f"model_{number}"] for number in (0, 1))
    groups = [result.episodes[start : start + 2] for start in range(0, 24, 2)]
    whole = sum(all(one.steps_of("player_1") for one in group) for group in groups)
    assert 0 < whole < 12
    assert (first["samples"], second["samples"]) == (24, 2 * whole)
    assert first["never_asked_by_agent"] == {"player_0": 0}
    assert second["never_asked_by_agent"] == {"player_1": 24 - 2 * whole}
    assert first["updated"] and np.isfinite([first["loss"], second["loss"]]).all()


def test_agents_out_of_turn_are_not_sampled_or_trained(short_run):
    run = build_run(
        short_run(
            rollout__groups_per_round=2,
            models__constrained=True,
            credit__name="agent_turn",
        ),
        nim,
    )
    seen = {}
    for model, buffer in run.buffers.items():
        buffer.add = lambda samples, model=model, add=buffer.add: (
            seen.update({model: samples}), add(samples))[1]  # fmt: skip
    result = train_round(run, 0)
    steps = [step for one in result.episodes for turn in one.turns for step in turn]
    asked = [step for step in steps if step.decision.asked]
    assert len(asked) == sum(len(one.turns) for one in result.episodes)
    assert all(step.decision.action == 0 for step in steps if not step.decision.asked)
    for row in result.row["models"].values():
        assert row["updated"] and np.isfinite(row["loss"])
    lengths = {len(one.turns) for one in result.episodes}
    for samples in seen.values():
        for one in samples:
            assert sum(one.elapsed) + (one.group[2] == "player_2") in lengths
            # What the winner takes, or the loser pays, reaches its last answer.
            assert one.rewards[-1] != 0.0 and not any(one.rewards[:-1])
            for ids, mask in zip(one.allowed, one.mask, strict=True):
                assert mask == (ids is not None and len(ids) > 1)
