"""Vectorised games as Stable-Baselines3's VecEnv: what its algorithms are handed."""

import numpy as np
import pytest

from srl_envs import vector
from srl_envs.errors import EnvConfigError

pytestmark = pytest.mark.interop
pytest.importorskip(
    "stable_baselines3", reason="stable-baselines3 is not installed: make test-interop"
)
GAMES, SEATS, ROUNDS = 3, 4, 5


def seats(name="coop_compete_v0", mode="SameStep", **options):
    options = {"num_agents": SEATS, "max_cycles": ROUNDS} | options
    return vector.stable_baselines3_vector(vector.make(name, GAMES, mode, **options))


def test_it_is_the_vectorised_game_seat_by_seat():
    vec, plain = seats(), vector.make("coop_compete_v0", GAMES, "SameStep", num_agents=SEATS,
                                      max_cycles=ROUNDS)  # fmt: skip
    assert vec.num_envs == GAMES * SEATS
    vec.seed(7)
    seen, (expected, _) = vec.reset(), plain.reset(seed=7)
    assert np.array_equal(seen, expected.reshape(GAMES * SEATS, -1))
    chance = np.random.default_rng(0)
    for number in range(1, 2 * ROUNDS + 1):
        actions = chance.integers(2, size=GAMES * SEATS)
        seen, rewards, ended, infos = vec.step(actions)
        expected, earned, _, _, told = plain.step(actions.reshape(GAMES, SEATS))
        assert np.array_equal(seen, expected.reshape(seen.shape))
        assert rewards == pytest.approx(earned.ravel()) and rewards.dtype == np.float32
        assert ended.all() == ended.any() == (number % ROUNDS == 0)
        for index, info in enumerate(infos):
            assert ("terminal_observation" in info) == ended[index]
            if ended[index]:
                last = told["final_obs"][index // SEATS, index % SEATS]
                assert np.array_equal(info["terminal_observation"], last)
                assert info["TimeLimit.truncated"] is True
    vec.close()


def test_unsupported_calls_are_refused():
    with pytest.raises(EnvConfigError, match="autoreset_mode is 'NextStep': give 'SameStep'"):
        seats(mode="NextStep")
    vec = seats()
    with pytest.raises(EnvConfigError, match="max_cycles cannot be set"):
        vec.set_attr("max_cycles", 3)
    with pytest.raises(EnvConfigError, match="agents have no method 'render'"):
        vec.env_method("render")


def test_ppo_learns_on_it():
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import VecMonitor

    vec = VecMonitor(seats())
    ppo = PPO("MlpPolicy", vec, n_steps=64, batch_size=256, learning_rate=3e-3, gamma=0.9,
              device="cpu", seed=0)  # fmt: skip
    ppo.learn(16 * 64 * GAMES * SEATS)
    vec.seed(1)
    seen, rewards = vec.reset(), []
    for _ in range(20 * ROUNDS):
        seen, earned, _, _ = vec.step(ppo.predict(seen)[0])
        rewards.append(earned.mean())
    assert np.mean(rewards) > 0.8  # uniform play earns .7625, the optimum is .85
