import json

import pytest

from benchmarks.training import algorithms, scaling


def test_every_algorithm_is_run_from_the_same_start(small_setting, tmp_path):
    own = {name: value for name, value in small_setting.items() if name.startswith("rollout")}
    own |= {"models.base": small_setting["models.base"], "models.count": 2, "rounds": 1,
            "environment.options": {"num_agents": 2, "max_cycles": 2}}  # fmt: skip
    chosen = {name: algorithms.ALGORITHMS[name] for name in ("GRPO", "PPO")}
    found = algorithms.measure("coop_compete", [0], tmp_path, own, chosen, games=4)
    assert [run["algorithm"] for run in found["runs"]] == ["GRPO", "PPO"]
    assert len({run["before"] for run in found["runs"]}) == 1
    assert all(len(run["rewards"]) == 1 and run["cpu_seconds"] > 0 for run in found["runs"])
    text = algorithms.markdown(found)
    assert "\n| PPO | " in text and "seeds 0" in text
    assert algorithms.figure(found, tmp_path / "curves.png").read_bytes()[:4] == b"\x89PNG"
    json.dumps(found)


def test_settings_of_every_algorithm_fit_every_game():
    for file in algorithms.GAMES.values():
        for own in algorithms.ALGORITHMS.values():
            algorithms.config_file.load(algorithms.records.ROOT / "examples" / file, own)


def run(name, before, after, seed=0):
    return {"algorithm": name, "seed": seed, "before": before, "after": after,
            "rewards": [before], "cpu_seconds": 1.0}  # fmt: skip


@pytest.mark.parametrize(
    "ppo, held",
    [(2.0, [True] * 3), (1.8, [True, True, False]), (0.9, [True, False, False])],
)
def test_targets_can_be_missed(ppo, held):
    runs = [run("GRPO", 1.0, 2.0), run("PPO", 1.0, ppo)]
    assert [check.held for check in algorithms.checks({"runs": runs})] == held


def test_a_bad_seed_is_not_hidden_by_the_mean():
    pairs = [("GRPO", 2.0), ("PPO", 2.6), ("GRPO", 2.0), ("PPO", 1.7)]
    runs = [run(name, 1.0, end, seed=n // 2) for n, (name, end) in enumerate(pairs)]
    assert [check.held for check in algorithms.checks({"runs": runs})] == [True, True, False]


def test_rounds_are_timed_in_processes_of_their_own(small_setting):
    setting = {name: value for name, value in small_setting.items()
               if name.partition(".")[2] not in ("options", "count")}  # fmt: skip
    found = scaling.measure([1], 2, setting)
    assert found["runs"]["1"]["round"] >= found["runs"]["1"]["train"] > 0
    assert found["runs"]["1"]["peak_rss"] > 1e8
    both = {**found["runs"], "2": found["runs"]["1"]}
    assert "| 1 | " in scaling.markdown({**found, "runs": both})


def test_a_round_may_not_cost_more_than_its_models():
    runs = {"1": {"round": 1.0}, "8": {"round": 8.5}}
    assert scaling.checks({"runs": runs})[0].held
    runs["8"]["round"] = 9.0
    assert not scaling.checks({"runs": runs})[0].held
