"""Claims on models that meet now and then."""

import numpy as np
import pytest

from benchmarks.training.federated import claims as federated
from benchmarks.training.federated import signals
from srl_agents.evaluation.bootstrap import mean_interval
from srl_envs.env_checker import check_environment


@pytest.mark.parametrize("parts", [True, False])
def test_agents_are_shown_their_part_or_all_signals_and_paid_for_the_right_colour(parts):
    check_environment(lambda: signals.Signals(parts))
    env = signals.Signals(parts)
    shown, paid = [set() for _ in env.possible_agents], []
    for seed in range(30):
        seen, _ = env.reset(seed=seed)
        while env.agents:
            now = [round(float(row[0]) * len(signals.SIGNALS)) for row in seen.values()]
            for own, signal in zip(shown, now, strict=True):
                own.add(signal)
            seen, rewards, *_ = env.step(dict.fromkeys(env.possible_agents, signals.RIGHT[now[0]]))
            right = [float(signals.RIGHT[one] == signals.RIGHT[now[0]]) for one in now]
            paid.append(list(rewards.values()) == right)
    assert all(paid)
    every = set(range(len(signals.SIGNALS)))
    assert shown == ([{0, 2, 4, 6}, {1, 3, 5, 7}] if parts else [every, every])


@pytest.mark.slow
def test_right_answers_and_bytes_are_compared_with_those_of_meeting_every_round(small):
    meetings = {
        federated.EVERY: federated.MEETINGS[federated.EVERY],
        "every 2": {"updates": {"strategy": "federated", "period": 2}},
        federated.NEVER: federated.MEETINGS[federated.NEVER],
    }
    request = small(games=40, seeds=(0, 1), rollout__group_size=8, algorithm__learning_rate=3e-2)
    result = federated.communication(request, meetings)
    rows = result.rows
    assert [row["variant"] for row in rows] == [*meetings] * 2
    for first, *others in (rows[:3], rows[3:]):
        assert (first["share"], first["loss"]) == (1.0, 0.0)
        assert [row["share"] for row in others] == [0.5, 0.0]
        gain = first["after"] - first["before"]
        assert gain
        for row in others:
            assert row["loss"] == pytest.approx((first["after"] - row["after"]) / gain)
    assert np.isfinite([row["after"] for row in rows]).all()
    text = federated.FEDERATED_COMMUNICATION.tables[1].markdown(result.rows)
    lost, low, high = mean_interval([rows[place]["loss"] for place in (1, 4)])
    assert text.count(f"\n| every 2 | 50% | {lost:+.1%} | {low:+.1%} to {high:+.1%} |") == 1
