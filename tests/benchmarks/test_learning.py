"""Measurements of trained models: exams on held-out tasks, and comparisons of methods."""

import pytest

from benchmarks import games, learning, training
from benchmarks.records import mean_interval


def measured(request):
    result = training.measure(request)
    return result, request.claim.markdown(result, request)


IMITATED = {"data_policy": "models", "episodes": 2, "drop_parse_failures": False}
EXAMS = {  # claim -> settings of the exam and the run, and the number of rows
    "maze": ({"games": 7, "environment__options__max_cycles": 6}, 1),
    "tools": ({"games": 5, "sft": IMITATED}, 1),
    "team_battle": (
        {"environment__options": {"team_size": 2, "max_cycles": 2, "warmup_episodes": 0}},
        5,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMS)
def test_run_is_measured_on_held_out_problems(name, small):
    settings, count = EXAMS[name]
    request = small(name, **settings)
    result, text = measured(request)
    assert len(result.rows) == count and text.count("\n| ") > count
    assert sum(row["episodes"] for row in result.rows) >= 8
    for row in result.rows:
        assert row.get("trained_and_asked", 0) == 0
    assert request.claim.judge(result)


def test_levels_are_distinct_and_walkers_differ():
    options = {"width": 5, "height": 5, "loop_share": 0.2, "max_cycles": 32, "mask_walls": True}
    exam = learning.held_out_mazes(options, 40)
    assert len(exam.identities) == 40
    walked = {name: exam.scripted(name) for name in ("random_walker", "explorer")}
    assert walked["explorer"]["solved"].mean == 1.0 and walked["explorer"]["detour"] < 1.3
    assert walked["random_walker"]["solved"].mean < 0.5


@pytest.mark.slow
def test_gain_is_relative_to_recorded_returns(small):
    methods = {
        "SFT": {"sft": {"data_policy": "models", "episodes": 4, "top_fraction": 0.5}},
        "DPO": {"dpo": {"episodes": 4}},
    }
    change = {"methods": methods, "options": {"configs": {"coop_compete": "demo.yaml"}}}
    request = small("offline", games=4, change=change, rollout__group_size=4, rounds=0)
    result, text = measured(request)
    first, second = result.rows
    assert [first["variant"], second["variant"]] == ["SFT", "DPO"]
    assert first["before"] == second["before"] and first["data"] != second["data"]
    # An agent earns between 0.4 and 1.1 a turn in this game, and there are eight turns.
    for row in result.rows:
        assert all(3 < row[key] < 9 for key in ("before", "data", "after"))
        assert row["gain"] == row["after"] - row["data"] and row["curve"] == []
    assert text.count("\n| coop_compete, ") == 2


@pytest.mark.parametrize(
    ("agents", "parts"),
    [(2, [{0, 2, 4, 6}, {1, 3, 5, 7}]), (4, [{0, 4}, {1, 5}, {2, 6}, {3, 7}])],
)
def test_signals_are_observed_in_parts_and_right_colours_pay(agents, parts):
    env = games.Signals(agents, turns=2)
    shown, paid = [set() for _ in env.possible_agents], []
    for seed in range(30):
        seen, _ = env.reset(seed=seed)
        while env.agents:
            now = [round(float(row[0]) * len(games.SIGNALS)) for row in seen.values()]
            for own, signal in zip(shown, now, strict=True):
                own.add(signal)
            seen, rewards, *_ = env.step(dict.fromkeys(env.possible_agents, games.RIGHT[now[0]]))
            right = [float(games.RIGHT[one] == games.RIGHT[now[0]]) for one in now]
            paid.append(list(rewards.values()) == right)
    assert all(paid) and len(paid) == 60
    assert shown == parts


@pytest.mark.slow
def test_accuracy_and_traffic_are_compared_with_exchange_every_round(small):
    methods = {
        "every round": {"updates": {"strategy": "federated"}},
        "every 2": {"updates": {"strategy": "federated", "period": 2}},
        "never": {"updates": {"strategy": "asynchronous"}},
    }
    sizes = {2: {"rollout.groups_per_round": 2}, 4: {"rollout.groups_per_round": 1}}
    request = small(
        "federated_communication", seeds=(0, 1), algorithm__learning_rate=3e-2,
        change={"methods": methods, "options": {"models": sizes}},
    )  # fmt: skip
    rows = learning.federated(request).rows
    runs = [(count, name) for count in sizes for _ in range(2) for name in methods]
    assert [(row["models"], row["variant"]) for row in rows] == runs
    for start in range(0, len(rows), 3):
        first, *others = rows[start : start + 3]
        assert (first["share"], first["loss"], first["compared"]) == (1.0, 0.0, False)
        assert [row["share"] for row in others] == [0.5, 0.0]
        gain = first["right"] - first["before"]
        assert gain
        for row in others:
            assert row["loss"] == pytest.approx((first["right"] - row["right"]) / gain)
    assert all(0 < row["right"] < 1 for row in rows)
    text = request.claim.tables[1].markdown(rows)
    lost, low, high = mean_interval([rows[place]["lost"] for place in (1, 4)])
    assert "\n| every 2 | 2 models |" in text and f"{lost:+.0f} ({low:+.0f} to {high:+.0f})" in text
