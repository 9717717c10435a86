import numpy as np
import pytest
from pytest import approx

from srl_envs import registry
from srl_envs.errors import EnvConfigError
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


@pytest.mark.parametrize("seats", [1, 2, 5])
def test_every_joint_choice_in_any_order_of_agents(seats):
    env = quiet(num_agents=seats, max_cycles=400)
    drawn = np.random.default_rng(0).integers(2, size=(300, seats)).tolist()
    for turn, chosen in enumerate(drawn, 1):
        actions = dict(zip(env.agents, chosen, strict=True))
        backwards = dict(reversed(actions.items()))  # seats may come in any order
        observations, rewards, *_, infos = env.step(backwards)
        assert list(rewards) == list(observations) == env.agents
        assert tuple(rewards.values()) == env.rules.expected_rewards(chosen)
        total = sum(chosen)
        for agent, action in actions.items():
            others = (total - action) / (seats - 1) if seats > 1 else 0.5
            seen = [0.0, action, others, rewards[agent], turn / 400, 0.6, 0.3]
            assert observations[agent].tolist() == approx(seen)
            assert infos[agent]["cooperation_ratio"] == total / seats
            assert infos[agent]["action_mask"].tolist() == [1, 1]


def test_the_benchmark_game():
    env = registry.make("coop_compete_pair_v0", noise_std=0.0)
    env.reset()
    for actions, reward in (((1, 1), 0.85), ((0, 0), 0.8), ((0, 1), 0.6), ((1, 0), 0.6)):
        _, rewards, *_ = env.step({"agent_0": actions[0], "agent_1": actions[1]})
        assert rewards == approx(dict.fromkeys(rewards, reward))


def test_noise_is_independent_normal_and_clipped_below_at_zero():
    env = parallel_env(num_agents=2, noise_std=0.05, max_cycles=20_000)
    env.reset(seed=7)
    played = []
    while env.agents:
        _, rewards, *_ = env.step({"agent_0": 1, "agent_1": 1})
        played.append(list(rewards.values()))
    noise = np.array(played) - 0.85
    # 20 000 draws a seat: the mean's standard error is .00035, the deviation's .00025
    assert np.abs(noise.mean(axis=0)).max() < 0.0015
    assert noise.std(axis=0) == approx(0.05, abs=0.0012)
    assert abs(np.corrcoef(noise.T)[0, 1]) < 0.03
    assert abs(np.corrcoef(noise[1:, 0], noise[:-1, 0])[0, 1]) < 0.03


def test_hidden_parameters_are_neither_seen_nor_told():
    hidden = parallel_env(observe_parameters=False, obs_mode="llm")
    observations, _ = hidden.reset(seed=0)
    assert observations["agent_0"]["observation"].tolist()[-2:] == [-1, -1]
    told = hidden.text_view.rules("agent_0") + observations["agent_0"]["text"]
    assert "level" not in told and "difficulty" not in told
    shown, _ = parallel_env(obs_mode="llm").reset(seed=0)
    assert "Cooperation level 0.60, difficulty 0.30." in shown["agent_0"]["text"]


def test_situation_in_words():
    env = quiet(max_cycles=8)
    observations, _ = env.reset(seed=0)
    describe = env.text_view.describe
    assert describe("agent_0", observations["agent_0"]) == (
        "Round 1 of 8. Nobody has chosen yet. Cooperation level 0.60, difficulty 0.30."
    )
    observations, *_ = env.step({"agent_0": 1, "agent_1": 1, "agent_2": 0, "agent_3": 1})
    assert describe("agent_0", observations["agent_0"]) == (
        "Round 2 of 8. You chose to cooperate and earned 0.80. Others cooperating: 2 of 3. "
        "Cooperation level 0.60, difficulty 0.30."
    )


def test_baselines():
    assert parallel_env().baselines() == approx({"uniform": 0.7625, "optimum": 0.85})
    pair = registry.make("coop_compete_pair_v0")
    assert pair.baselines() == approx({"uniform": 0.7125, "optimum": 0.85})


def test_baselines_are_what_play_earns():
    env = parallel_env(max_cycles=4000)
    env.reset(seed=1)
    generator, earned = np.random.default_rng(1), []
    while env.agents:
        actions = generator.integers(0, 2, len(env.agents))
        earned += env.step(dict(zip(env.agents, actions, strict=True)))[1].values()
    assert np.mean(earned) == approx(env.baselines()["uniform"], abs=0.003)


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"noise_std": -0.1}, "noise_std must be a number at least 0, got -0.1"),
        ({"max_cycles": 0}, "max_cycles must be a whole number of at least 1, got 0"),
        ({"obs_mode": "text"}, "obs_mode must be one of 'vector', 'dict', 'llm', got 'text'"),
        ({"render_mode": "gif"}, "render_mode must be one of None, 'human', 'ansi', 'rgb_array'"),
        ({"observe_parameters": 1}, "observe_parameters must be True or False, got 1"),
        ({"cooperation_level": 2}, "cooperation_level must be a number between 0 and 1, got 2"),
    ],
)
def test_wrong_arguments(parameters, said):
    with pytest.raises(EnvConfigError) as caught:
        parallel_env(**parameters)
    assert said in str(caught.value)
