"""Ray engine with actors in this process: equal to the local engine, also after deaths."""

import subprocess
import sys
from contextlib import closing

import pytest

from srl_extensions.cluster.engine import on_device, shares_of
from srl_train import resume
from srl_train.build import build_run
from srl_train.errors import ConfigError, TrainingError
from srl_train.evaluation import evaluate
from srl_train.round import train_round
from srl_train.schedule import build_schedule
from tests.srl_extensions.cluster.direct import DirectCluster, deaths_of, on_ray, use
from tests.srl_train.run_state import everything, same, without_times

CASES = {
    "adapters, a pool and a scripted player": {
        "models__adapters": {"rank": 2},
        "environment__options": {"num_agents": 4, "max_cycles": 2},
        "opponent_pools": {
            "past": {"models": ["model_0"], "every": 1, "draw": "nash", "nash_episodes": 1}
        },
        "seats": {"agent_2": "past", "agent_3": "always_cooperate"},
    },
    "drawn models": {
        "models__count": 3,
        "matchmaking__name": "uniform",
        "rollout__groups_per_round": 2,
        "updates__strategy": "synchronized",
    },
    "selective, with a critic": {
        "updates__strategy": "selective",
        "algorithm": {"name": "ppo", "critic": "separate"},
    },
}
MORTAL = (
    "learn", "begin_update", "compute_gradients", "apply_gradients", "end_update", "set_weights",
    "weights", "play",
)  # fmt: skip
"""Methods whose second call ends in a death."""


def played(config, rounds=2):
    """Return a run and its rows after a number of rounds."""
    run = build_run(config)
    rows = []
    for number in range(rounds):
        rows.append(train_round(run, number).row)
        run.next_round = number + 1
    return run, without_times(rows)


@pytest.mark.parametrize("settings", CASES.values(), ids=CASES)
def test_one_player_is_equal_to_the_local_engine_to_the_bit(short_run, monkeypatch, settings):
    use(monkeypatch, DirectCluster())
    config = short_run(**settings)
    local, expected = played(config)
    run, rows = played(on_ray(config))
    assert rows == expected
    assert same(everything(run), everything(local))


@pytest.mark.parametrize("strategy", ["synchronized", "federated"])
def test_run_with_deaths_equals_an_undisturbed_run(short_run, monkeypatch, strategy):
    dies, deaths = deaths_of(MORTAL)
    config = short_run(updates__strategy=strategy, algorithm__minibatches=2)
    use(monkeypatch, DirectCluster(dies))
    local, expected = played(config)
    run, rows = played(on_ray(config))
    assert len(set(deaths)) > 1
    assert rows == expected
    assert same(everything(run), everything(local))


def test_several_players_play_the_same_episodes(short_run, monkeypatch):
    use(monkeypatch, DirectCluster())
    config = short_run(rollout__groups_per_round=2)
    [one, other] = [build_run(each) for each in (config, on_ray(config, rollout_workers=3))]
    episodes, others = (evaluate(run, 5)[1] for run in (one, other))
    assert [e.seed for e in episodes] == [e.seed for e in others]
    # Other batches may differ in the last bits.
    assert [e.returns() for e in episodes] == [e.returns() for e in others]


@pytest.mark.parametrize(("staleness", "oldest"), [(0, 0), (1, 1)])
def test_rounds_are_played_ahead(short_run, monkeypatch, staleness, oldest):
    use(monkeypatch, DirectCluster())
    config = short_run(updates__max_staleness=staleness, rounds=4)
    _, expected = played(config, rounds=4)
    bound = 2 if staleness else None
    run = build_run(on_ray(config, play_ahead=True, in_flight=bound))
    with closing(build_schedule(run, lambda number: False)) as schedule:
        rows = without_times([schedule.next_round().row for _ in range(4)])
    run.players.close()
    # A model without an update in a round has no staleness.
    summaries = [own["staleness"] for row in rows for own in row["models"].values()]
    assert max(own["max"] for own in summaries if own is not None) == oldest
    if not staleness:
        assert [row["models"] for row in rows] == [row["models"] for row in expected]


@pytest.mark.parametrize(
    "arguments, expected",
    [
        ((16, 2, 4), [range(0, 8), range(8, 16)]),
        ((12, 2, 4), [range(0, 4), range(4, 12)]),
        ((8, 3, 4), [range(0, 2), range(2, 5), range(5, 8)]),  # fewer groups than players
        ((5, 2, 4), [range(0, 2), range(2, 5)]),  # an evaluation
    ],
)
def test_shares_are_whole_groups(arguments, expected):
    assert shares_of(*arguments) == expected


def test_three_deaths_in_one_call_end_the_run(short_run, monkeypatch):
    use(monkeypatch, DirectCluster(lambda method: method == "learn"))
    run = build_run(on_ray(short_run()))
    with pytest.raises(TrainingError, match=r"the learner of model_[01] died 3 times"):
        train_round(run, 0)


def test_errors_of_actors_are_raised_unchanged(short_run, monkeypatch):
    cluster = use(monkeypatch, DirectCluster())
    config = short_run(algorithm__trl={"optim": "sgdd"})
    with pytest.raises(ConfigError, match="sgdd"):
        build_run(on_ray(config))
    assert cluster.closed


def test_a_run_is_resumed_with_another_engine(short_run, monkeypatch, tmp_path):
    use(monkeypatch, DirectCluster())
    config = short_run()
    whole, _ = played(config)
    begun, _ = played(on_ray(config), rounds=1)
    name = resume.save(begun, tmp_path)
    begun.players.close()
    run = build_run(config)
    resume.load(run, tmp_path, name)
    train_round(run, 1)
    run.next_round = 2
    assert same(everything(run), everything(whole))


def test_actors_without_gpus_use_cpus(short_run):
    assert on_device(short_run(), "rollout_worker_gpus", 0.0).models.device == "cpu"
    assert on_device(short_run(), "rollout_worker_gpus", 0.5).models.device == "auto"
    with pytest.raises(ConfigError, match=r"models\.device: .*engine\.rollout_worker_gpus"):
        on_device(short_run(models__device="cuda"), "rollout_worker_gpus", 0.0)


def test_missing_ray_error_contains_the_install_command(short_run, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "srl_extensions.cluster.actors", raising=False)
    with pytest.raises(ConfigError, match=r'pip install "core-srl\[ray\]"'):
        build_run(on_ray(short_run()))


def test_torchrun_and_ray_exclude_each_other(short_run, monkeypatch):
    monkeypatch.setattr("srl_train.build.processes.start", lambda *given: 2)
    with pytest.raises(ConfigError, match=r"engine\.name"):
        build_run(on_ray(short_run()))


@pytest.mark.slow
def test_player_does_not_import_trl(tiny_folder):
    code = (
        "import sys, functools\n"
        "from srl_train.config.yaml_file import from_tree\n"
        "from srl_train.plan import PlannedGames\n"
        "from srl_extensions.cluster import engine, players\n"
        "from srl_train.environment import build_env\n"
        f"config = from_tree({{'models': {{'base': {tiny_folder!r}}}}})\n"
        "worker = players.PlayerWorker(config, functools.partial(build_env, config))\n"
        "seats = {f'agent_{n}': f'model_{n}' for n in range(4)}\n"
        "[episode], _ = worker.play(PlannedGames([1], [2], [{}], [seats]), {})\n"
        "assert episode.failure is None and len(episode.turns) == 8\n"
        "print('TRL' if 'trl' in sys.modules else 'none')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "none"
