"""Vectorized form of any ParallelEnv: N environments stepped one after another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from srl_envs.errors import EnvConfigError
from srl_envs.vector.vector_env import Outcome, VectorGame


class SyncVectorGame(VectorGame):
    """N PettingZoo ParallelEnvs that are stepped one after another.

    All agents must have observations of one shape and dtype, and the same Discrete actions from 0.
    An agent whose episode ends before the others' keeps its last observation, termination and
    truncation, with reward 0. An agent that is not in `agents` counts as terminated until it joins.

    Args:
        make_env: Constructor of one environment.
        num_envs: Number of environments N, at least 1.

    Raises:
        EnvConfigError: Spaces differ between agents or do not fit into arrays, or N is invalid.
    """

    def __init__(self, make_env: Callable[[], Any], num_envs: int = 1) -> None:
        first = make_env()
        _refuse_misfits(first)
        super().__init__(first, num_envs)
        self.envs = [first, *(make_env() for _ in range(self.num_envs - 1))]
        self._terminated = np.zeros(self._shape, bool)
        self._truncated = np.zeros(self._shape, bool)
        self._infos: list[Mapping[str, Mapping[str, Any]]] = [{}] * self.num_envs
        self._index_of = {agent: index for index, agent in enumerate(self.possible_agents)}

    def close(self) -> None:
        for env in self.envs:
            env.close()

    def _start(
        self, env_ids: np.ndarray, seeds: Sequence[int | None], options: Mapping[str, Any]
    ) -> None:
        for i, seed in zip(env_ids.tolist(), seeds, strict=True):
            observations, infos = self.envs[i].reset(seed=seed, options=dict(options))
            self._observations[i] = 0
            playing = self.envs[i].agents
            self._terminated[i] = [agent not in playing for agent in self.possible_agents]
            self._truncated[i] = False
            self._write_observations(i, observations)
            self._infos[i] = infos

    def _play(self, chosen: np.ndarray, resting: np.ndarray) -> Outcome:
        rewards = np.zeros(self._shape)
        index_of = self._index_of
        for i, acts in enumerate(chosen.tolist()):
            if resting[i]:
                continue
            env = self.envs[i]
            actions = {agent: acts[index_of[agent]] for agent in env.agents}
            observations, earned, terminations, truncations, infos = env.step(actions)
            self._write_observations(i, observations)
            for agent in actions:
                index = index_of[agent]
                rewards[i, index] = earned[agent]
                self._terminated[i, index] = terminations[agent]
                self._truncated[i, index] = truncations[agent]
            for agent in env.agents if len(observations) > len(actions) else ():
                self._terminated[i, index_of[agent]] = False  # It may have joined.
            self._infos[i] = infos
        return rewards, self._terminated.copy(), self._truncated.copy()

    def _report(self, fresh: np.ndarray) -> dict[str, Any]:
        given = [
            (i, self._index_of[agent], info)
            for i, infos in enumerate(self._infos)
            for agent, info in infos.items()
        ]
        return self._stacked(given)

    def _write_observations(self, i: int, observations: Mapping[str, Any]) -> None:
        for agent, seen in observations.items():
            self._observations[i, self._index_of[agent]] = seen

    def _stacked(self, given: Sequence[tuple[int, int, Mapping[str, Any]]]) -> dict[str, Any]:
        """Merge (env, agent, info) to key -> array (N, A, ...) or nested dict, "_key" -> marks."""
        by_key: dict[str, list[tuple[int, int, Any]]] = {}
        for i, agent, info in given:
            for key, value in info.items():
                by_key.setdefault(key, []).append((i, agent, value))
        infos: dict[str, Any] = {}
        for key, found in by_key.items():
            values = [value for _, _, value in found]
            where = tuple(np.array([(i, agent) for i, agent, _ in found]).T)
            has = np.zeros(self._shape, bool)
            has[where] = True
            if all(isinstance(value, Mapping) for value in values):
                infos[key] = self._stacked(found)
            else:
                infos[key] = self._array(values, where)
            infos[f"_{key}"] = has
        return infos

    def _array(self, values: Sequence[Any], where: tuple[np.ndarray, ...]) -> np.ndarray:
        arrays = [np.asarray(value) for value in values]
        kinds = {(array.shape, array.dtype) for array in arrays}
        if {type(value) for value in values} == {int, float}:
            kinds = {((), np.dtype(float))}
        (shape, dtype), *others = kinds
        if not others and dtype.kind in "biuf":
            stacked = np.zeros((*self._shape, *shape), dtype)
            stacked[where] = arrays
            return stacked
        stacked = np.full(self._shape, None, object)
        for i, agent, value in zip(*where, values, strict=True):
            stacked[i, agent] = value
        return stacked


def _refuse_misfits(env: Any) -> None:
    agents = env.possible_agents
    seen, acts = env.observation_space(agents[0]), env.action_space(agents[0])
    if seen.shape is None or seen.dtype is None:
        raise EnvConfigError(
            f"observations must be arrays, got {seen}: use obs_mode='vector', or flatten them"
        )
    if not isinstance(acts, spaces.Discrete) or acts.start != 0:
        raise EnvConfigError(f"actions must be Discrete, with start 0, got {acts}")
    for agent in agents:
        other_seen, other_acts = env.observation_space(agent), env.action_space(agent)
        same = (other_seen.shape, other_seen.dtype) == (seen.shape, seen.dtype)
        if not same or other_acts != acts:
            raise EnvConfigError(
                f"all agents must have the same spaces, got {seen} and {acts} for {agents[0]}, "
                f"{other_seen} and {other_acts} for {agent}"
            )
