from pytest import approx

from srl_envs import registry
from srl_envs.games.coop_compete import OBSERVATION_FIELDS, parallel_env


def quiet(**parameters):
    env = parallel_env(noise_std=0.0, **parameters)
    env.reset(seed=0)
    return env


def test_rewards_and_observations_of_a_round():
    env = quiet(num_agents=4, max_cycles=8)
    actions = {"agent_0": 1, "agent_1": 1, "agent_2": 0, "agent_3": 1}
    observations, rewards, terminations, truncations, infos = env.step(actions)
    assert rewards == approx({"agent_0": 0.8, "agent_1": 0.8, "agent_2": 0.7, "agent_3": 0.8})
    seen = dict(zip(OBSERVATION_FIELDS, observations["agent_0"].tolist(), strict=True))
    assert seen == approx(
        {
            "first_round": 0,
            "own_cooperated": 1,
            "others_cooperated": 2 / 3,
            "last_reward": 0.8,
            "time": 1 / 8,
            "cooperation_level": 0.6,
            "difficulty": 0.3,
        }
    )
    assert observations["agent_2"].tolist()[1:3] == [0, 1]
    assert infos["agent_0"]["cooperation_ratio"] == 0.75
    assert not any(terminations.values()) and not any(truncations.values())


def test_baselines():
    # Scripted: one round of all cooperating, one of all competing (.80), two of all cooperating.
    best = {"constant": 0.85, "scripted": 0.8375, "optimum": 0.85}
    assert parallel_env(max_cycles=4).baselines() == approx({"uniform": 0.7625, **best})
    pair = registry.make("coop_compete_pair_v0", max_cycles=4)
    assert pair.baselines() == approx({"uniform": 0.7125, **best})
