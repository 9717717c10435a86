"""Environments without array rules, ours and others', behind the same interface."""

import numpy as np
import pytest
from gymnasium import spaces
from pettingzoo import ParallelEnv

from srl_envs import make, vector
from srl_envs.errors import EnvConfigError
from srl_envs.vector import SyncVectorGame
from tests.srl_envs.vector.singles import names


class Countdown(ParallelEnv):
    """Agent k ends after k + 1 rounds; it observes and earns its last action."""

    metadata = {"name": "countdown_v0"}  # noqa: RUF012

    def __init__(self, seats=3, observation=None, actions=None):
        self.possible_agents = [f"seat_{i}" for i in range(seats)]
        self._seen = observation or spaces.Discrete(5)
        self._acts = actions or spaces.Discrete(4)
        self.closed = False

    def observation_space(self, agent):
        return self._seen

    def action_space(self, agent):
        return self._acts

    def reset(self, seed=None, options=None):
        self.agents, self._round = list(self.possible_agents), 0
        self.seed = seed
        return dict.fromkeys(self.agents, 4), {a: {} for a in self.agents}

    def step(self, actions):
        assert set(actions) == set(self.agents)
        self._round += 1
        playing = self.agents
        gone = {a: int(a[-1]) < self._round for a in playing}
        self.agents = [a for a in playing if not gone[a]]
        infos = {a: {"name": a, "round": self._round, "at": {"x": 1.5}} for a in playing}
        rewards = {a: float(actions[a]) for a in playing}
        return dict(actions), rewards, gone, dict.fromkeys(playing, False), infos

    def close(self):
        self.closed = True


def test_games_without_array_form_are_looped():
    looped = {name for name in names() if isinstance(vector.make(name, 1), SyncVectorGame)}
    social = {"social_v0", "social_trading_v0", "social_negotiation_v0"}
    mazes = {"maze_race_v0", "maze_own_v0", "maze_meet_v0"}
    hidden = {name for name in looped if name.endswith("_v1")}
    assert len(hidden) == 5
    assert looped == {"staged_v0", "bandit_v0", *hidden, *social, *mazes}


def test_agents_that_end_early_keep_their_last_values():
    games = SyncVectorGame(Countdown, 2)
    observations, infos = games.reset(seed=5)
    assert (observations.shape, observations.dtype) == ((2, 3), np.int64)
    assert infos == {}
    assert [env.seed for env in games.envs] == [5, 6]
    actions = np.array([[1, 2, 3], [3, 2, 1]])
    _, rewards, terminations, _, infos = games.step(actions)
    assert rewards.tolist() == actions.tolist()
    assert terminations.tolist() == [[True, False, False]] * 2
    assert infos["name"].tolist() == [games.possible_agents] * 2
    assert infos["at"]["x"].tolist() == [[1.5] * 3] * 2
    observations, rewards, terminations, _, infos = games.step(np.zeros((2, 3), int))
    assert observations.tolist() == [
        [1, 0, 0],
        [3, 0, 0],
    ]  # ended agents keep theirs
    assert rewards.tolist() == [[0.0] * 3] * 2
    assert terminations.tolist() == [[True, True, False]] * 2
    assert infos["_round"].tolist() == [[False, True, True]] * 2
    assert infos["round"].tolist() == [[0, 2, 2]] * 2
    assert games.step(actions)[2].all()
    observations, rewards, terminations, _, infos = games.step(actions)  # the next episode begins
    assert (observations == 4).all() and not rewards.any() and not terminations.any()
    assert infos == {}
    games.close()
    assert all(env.closed for env in games.envs)


@pytest.mark.parametrize(
    ("make_env", "message"),
    [
        (
            lambda: Countdown(observation=spaces.Dict({"a": spaces.Discrete(2)})),
            "observations must be arrays",
        ),
        (lambda: Countdown(actions=spaces.Box(0, 1, (2,))), "actions must be Discrete"),
        (lambda: Countdown(actions=spaces.Discrete(2, start=1)), "start 0"),
        (lambda: make("coop_compete_v0", obs_mode="llm"), "obs_mode"),
    ],
)
def test_unsuitable_spaces_raise(make_env, message):
    with pytest.raises(EnvConfigError, match=message):
        SyncVectorGame(make_env)


def test_third_party_game():
    pytest.importorskip("pygame", reason="rps_v2 imports it")
    from pettingzoo.classic import rps_v2

    games = SyncVectorGame(rps_v2.parallel_env, 3)
    games.reset(seed=0)
    observations, rewards, *_ = games.step(np.array([[0, 1], [1, 1], [2, 1]]))
    assert rewards.tolist() == [[-1, 1], [0, 0], [1, -1]]
    assert observations.tolist() == [[1, 0], [1, 1], [1, 2]]
