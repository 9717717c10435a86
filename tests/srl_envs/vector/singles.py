"""The reference: single environments in a plain loop, and what a vectorised game must equal."""

from typing import Any

import numpy as np
from gymnasium.spaces import Discrete

from srl_envs import make, registry, vector


def names() -> list[str]:
    """The catalogue's games that are played with numbers; the others are answered in words."""
    made = {name: make(name) for name in registry.names()}
    return [
        name
        for name, env in made.items()
        if isinstance(env.action_space(env.possible_agents[0]), Discrete)
    ]


class Singles:
    """N single environments, whose outcomes `reset` and `step` store by environment and agent."""

    def __init__(self, make_env: Any, num_envs: int) -> None:
        self.envs = [make_env() for _ in range(num_envs)]
        self.agents = list(self.envs[0].possible_agents)
        self.seen: list[Any] = [None] * num_envs
        self.infos: list[Any] = [None] * num_envs

    def reset(self, seeds: Any, options: Any = None) -> None:
        for i, env in enumerate(self.envs):
            self.seen[i], self.infos[i] = env.reset(seed=seeds[i], options=options)

    def step(self, actions: np.ndarray) -> None:
        count = len(self.envs)
        self.rewards = [dict.fromkeys(self.agents, 0.0) for _ in range(count)]
        self.terminations = [dict.fromkeys(self.agents, False) for _ in range(count)]
        self.truncations = [dict.fromkeys(self.agents, False) for _ in range(count)]
        for i, env in enumerate(self.envs):
            if not env.agents:
                self.seen[i], self.infos[i] = env.reset()
                continue
            chosen = dict(zip(self.agents, actions[i].tolist(), strict=True))
            outcome = env.step(chosen)
            self.seen[i], self.rewards[i], self.terminations[i], self.truncations[i] = outcome[:4]
            self.infos[i] = outcome[4]

    def running(self) -> np.ndarray:
        return np.array([bool(env.agents) for env in self.envs])


def same_observations(observations: np.ndarray, singles: Singles) -> None:
    for i, seen in enumerate(singles.seen):
        for seat, agent in enumerate(singles.agents):
            assert np.array_equal(observations[i, seat], seen[agent]), (i, agent)


def same_outcome(outcome: Any, singles: Singles) -> None:
    observations, rewards, terminations, truncations, infos = outcome
    same_observations(observations, singles)
    for name, got, expected in (
        ("rewards", rewards, singles.rewards),
        ("terminations", terminations, singles.terminations),
        ("truncations", truncations, singles.truncations),
    ):
        assert got.tolist() == [[one[a] for a in singles.agents] for one in expected], name
    same_infos(infos, singles.infos, singles.agents)


def same_infos(infos: Any, expected: Any, agents: Any) -> None:
    """Assert that infos equal the single ones, and that missing values are 0 or None."""
    keys = {key for key in infos if not key.startswith("_")}
    assert keys == {key for info in expected for said in info.values() for key in said}
    for key in keys:
        values, has = infos[key], infos[f"_{key}"]
        assert (has.dtype, has.shape) == (bool, (len(expected), len(agents)))
        for i, info in enumerate(expected):
            for seat, agent in enumerate(agents):
                said = info.get(agent, {})
                assert has[i, seat] == (key in said), (key, i, agent)
                if isinstance(values, dict):
                    for inner, value in said.get(key, {}).items():
                        assert values[inner][i, seat] == value, (key, inner)
                elif key in said:
                    assert np.array_equal(values[i, seat], said[key]), (key, i, agent)
                else:
                    nothing = None if values.dtype == object else np.zeros_like(values[i, seat])
                    assert np.array_equal(values[i, seat], nothing), (key, i, agent)


def compared(
    name: str,
    num_envs: int,
    episodes: int,
    seeds: Any = 0,
    options: Any = None,
    **parameters: Any,
) -> int:
    """Compare the vectorized game with single ones for `episodes` episodes; return their number."""
    games = vector.make(name, num_envs, **parameters)
    singles = Singles(lambda: make(name, **parameters), num_envs)
    generator = np.random.default_rng(1)
    observations, infos = games.reset(seeds, options)
    first = [seeds + i for i in range(num_envs)] if isinstance(seeds, int) else seeds
    singles.reset(first, options)
    same_observations(observations, singles)
    same_infos(infos, singles.infos, singles.agents)
    ended, shape = 0, (num_envs, games.num_agents)
    while ended < episodes:
        actions = generator.integers(0, games.single_action_space.n, shape)
        outcome = games.step(actions)
        singles.step(actions)
        same_outcome(outcome, singles)
        over = (outcome[2] | outcome[3]).all(axis=1)
        ended += int(over.sum())
    return ended
