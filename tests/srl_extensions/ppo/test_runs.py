"""PPO in whole runs: modes, strategies and kinds of models, next to GRPO, stopped and resumed."""

import pytest

from srl_envs.games import coop_compete as coop_compete_v0
from srl_train.build import build_run
from srl_train.errors import ConfigError
from srl_train.round import train_round
from tests.srl_train.run_state import (
    everything,
    play_round,
    resumed_and_whole,
    same,
    weights,
)

PPO = {"algorithm": {"name": "ppo"}}
SHORT = {"algorithm": {"name": "ppo", "num_iterations": 2, "minibatches": 1, "critic": "shared"}}


def critics(run):
    return {
        model: {n: w for n, w in own.items() if n.startswith("critic.")}
        for model, own in weights(run).items()
    }


@pytest.mark.parametrize(
    ("strategy", "critic", "adapters"),
    [
        ("synchronized", "shared", None),
        ("federated", "central", {"rank": 2}),
        ("selective", "separate", {"rank": 2}),
        ("asynchronous", "shared", {"rank": 2}),
    ],
)
def test_every_strategy_with_every_critic_and_kind_of_model(strategy, critic, adapters, short_run):
    own = {"updates__sample_budget": {"model_1": 6}} if strategy == "asynchronous" else {}
    run = build_run(
        short_run(
            **SHORT,
            **own,
            algorithm__critic=critic,
            models__adapters=adapters,
            models__constrained=True,
            updates__strategy=strategy,
            rollout__group_size=2,
            rollout__groups_per_round=2,
        )
    )
    start = critics(run)
    assert same(start["model_0"], start["model_1"]), "averaging wants equal starts"
    for number in range(2):
        row = train_round(run, number).row
    now = critics(run)
    assert not same(now, start)
    assert same(now["model_0"], now["model_1"]) is (strategy in ("synchronized", "federated"))
    if strategy == "asynchronous":
        assert row["models"]["model_1"]["staleness"]["max"] == 0  # 6 of 8, 2 are left over
        train_round(run, 2)
        assert run.versions == {"model_0": 3, "model_1": 2}


@pytest.mark.parametrize(
    "settings",
    [
        {
            "algorithm__critic": "central",
            "algorithm__value_normalization": "running",
            "updates__sample_budget": {"model_0": 2, "model_1": 6},
        },
        {
            "algorithm__critic": "separate",
            "models__adapters": {"rank": 2},
        },
    ],
    ids=["central and stale", "separate adapters"],
)
def test_a_resumed_run_gives_the_same_state(settings, short_run, tmp_path):
    config = short_run(
        **SHORT,
        **settings,
        rollout__group_size=2,
        rollout__groups_per_round=2,
        algorithm__schedule="linear",
    )
    resumed, whole = resumed_and_whole(config, tmp_path)
    assert same(everything(resumed.run), everything(whole.run))


def test_states_are_recorded_where_a_central_critic_reads_them(short_run):
    run = build_run(short_run(**PPO, algorithm__critic="central"))
    episodes = play_round(run, 0)
    env = run.make_env()
    env.reset(seed=episodes[0].seed)
    for episode in episodes:
        assert len(episode.states) == len(episode.turns) == 2
        assert (episode.states[0] == env.state()).all()  # one start
        assert episode.states[1].dtype.name == "float32"
    assert play_round(build_run(short_run(**PPO)), 0)[0].states is None


def test_a_central_critic_requires_a_state(short_run):
    class Secretive(coop_compete_v0.CoopCompete):
        def state(self):
            raise NotImplementedError("this environment has no joint state")

    config = short_run(**PPO, algorithm__critic="central")
    with pytest.raises(ConfigError, match=r"algorithm\.critic"):
        build_run(config, lambda: Secretive(variant="pair", max_cycles=2))
