"""Base class of vectorized games: seeds, checks of actions, automatic resets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from srl_envs.errors import EnvError
from srl_envs.validation import reset_arguments, whole_number

Outcome = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Rewards, terminations and truncations, (N, A) each."""
Step = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]


class VectorGame:
    """N environments of one game with A agents each, stepped together.

    Each environment behaves exactly like a single environment with the same seed.

    - observations: (N, A, ...), in the dtype of `single_observation_space` (float32 in our games)
    - actions: integers (N, A)
    - rewards: float64 (N, A); terminations and truncations: bool (N, A)
    - infos: for each key of an agent's info an array (N, A, ...) and, under `"_" + key`, a bool
      array (N, A) that marks the agents with this key. Entries of other agents are 0, or None in
      arrays of objects. A dict within an info becomes a dict of arrays.

    Returned arrays are copies. Episodes restart as in Gymnasium's mode NEXT_STEP: the step after
    the end of an episode, for all its agents, ignores the environment's actions and starts its next
    episode, with reward 0.

    Args:
        single: A single environment, which defines agents, spaces and metadata.
        num_envs: Number of environments N, at least 1.

    Raises:
        EnvConfigError: An argument is invalid.
    """

    def __init__(self, single: Any, num_envs: int) -> None:
        self.num_envs = whole_number("num_envs", num_envs, low=1)
        self.possible_agents: list[str] = list(single.possible_agents)
        agent = self.possible_agents[0]
        self.single_observation_space: spaces.Space[Any] = single.observation_space(agent)
        self.single_action_space: spaces.Discrete = single.action_space(agent)
        self.metadata: dict[str, Any] = dict(getattr(single, "metadata", {}))
        self._shape = (self.num_envs, len(self.possible_agents))
        seen = self.single_observation_space
        self._observations = np.zeros((*self._shape, *(seen.shape or ())), seen.dtype)
        self._ended = np.zeros(self.num_envs, bool)
        self._begun = False

    @property
    def num_agents(self) -> int:
        """Number of agents of each environment."""
        return self._shape[1]

    # Defined by subclasses.

    def _start(
        self, env_ids: np.ndarray, seeds: Sequence[int | None], options: Mapping[str, Any]
    ) -> None:
        """Start episodes at the indices `env_ids`, and write their first observations.

        `seeds` has one seed per index; None continues the environment's random stream.
        """
        raise NotImplementedError

    def _play(self, chosen: np.ndarray, resting: np.ndarray) -> Outcome:
        """Play `chosen` (N, A), write `_observations`; results of `resting` (N,) are not used."""
        raise NotImplementedError

    def _report(self, fresh: np.ndarray) -> dict[str, Any]:
        """Return the infos of VectorGame; `fresh` (N,) marks environments that were just reset."""
        raise NotImplementedError

    def reset(
        self,
        seed: int | Sequence[int | None] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start episodes in all environments; return observations and infos.

        Raises EnvError if the number of seeds is not N, and EnvConfigError if a seed is no whole
        number of at least 0 or an option is invalid.

        Args:
            seed: An int s for the seeds s, s + 1, ..., or a list of N seeds. None, also in a
                list, continues the random stream.
            options: Reset options for all environments, except automatic restarts.
        """
        given = reset_arguments(None, options)[1]
        seeds = self._seeds(seed)
        everywhere = np.ones(self.num_envs, bool)
        self._start(everywhere.nonzero()[0], seeds, given)
        self._begun, self._ended = True, ~everywhere
        return self._observations.copy(), self._report(everywhere)

    def step(self, actions: Any) -> Step:
        """Play one round in each environment, or restart it if its episode ended in the last step.

        Returns observations, rewards, terminations, truncations (the last three 0 for a restart)
        and infos. Raises EnvError before the first reset, and for actions of another shape, dtype
        or range.
        """
        chosen = self._checked(actions)
        resting = self._ended
        rewards, terminations, truncations = self._play(chosen, resting)
        if resting.any():
            env_ids = resting.nonzero()[0]
            self._start(env_ids, [None] * len(env_ids), {})
            for outcome in (rewards, terminations, truncations):
                outcome[env_ids] = 0
        self._ended = np.zeros(self.num_envs, bool)
        if terminations.any() or truncations.any():
            self._ended = all_agents(terminations | truncations)
        infos = self._report(resting)
        return self._observations.copy(), rewards, terminations, truncations, infos

    def close(self) -> None:
        """Close the environments; here do nothing."""

    def per_agent(self, values: np.ndarray) -> np.ndarray:
        """Return an array (N, A) that repeats `values` (N,) for every agent."""
        spread = np.empty(self._shape, values.dtype)
        broadcast_to_agents(spread, values)
        return spread

    def _checked(self, actions: Any) -> np.ndarray:
        given = np.asarray(actions)
        if given.dtype.kind not in "iu":
            raise EnvError(f"actions must be integers, got an array of {given.dtype}")
        if given.shape != self._shape:
            raise EnvError(
                f"actions must have shape {self._shape}, one for each environment and agent, "
                f"got {given.shape}"
            )
        if not self._begun:
            raise EnvError("step() without a running episode: call reset() first")
        chosen = given.astype(np.int64, copy=False)
        count = int(self.single_action_space.n)
        if chosen.min() < 0 or chosen.max() >= count:
            raise EnvError(
                f"actions must be from 0 to {count - 1}, got {chosen.min()} to {chosen.max()}"
            )
        return chosen

    def _seeds(self, seed: int | Sequence[int | None] | None) -> list[int | None]:
        if seed is None:
            return [None] * self.num_envs
        if isinstance(seed, Sequence | np.ndarray) and not isinstance(seed, str | bytes):
            if getattr(seed, "ndim", 1) != 1 or len(seed) != self.num_envs:
                raise EnvError(
                    f"seed must be one number or {self.num_envs}, one for each environment, "
                    f"got {seed!r}"
                )
            return [None if s is None else whole_number("seed", s, low=0) for s in seed]
        first = whole_number("seed", seed, low=0)
        return list(range(first, first + self.num_envs))


# NumPy loops over the last axis of an array. The axis of agents is short, so an explicit loop over
# agents is many times as fast as broadcasting along this axis or summing over it.


def broadcast_to_agents(target: np.ndarray, values: np.ndarray) -> None:
    """Write `values` (N,) to the column of every agent in `target` (N, A)."""
    for agent in range(target.shape[1]):
        target[:, agent] = values


def sum_over_agents(values: np.ndarray) -> np.ndarray:
    """Return the sums (N,) of `values` (N, A) over the agents."""
    total: np.ndarray = values[:, 0].copy()
    for agent in range(1, values.shape[1]):
        total += values[:, agent]
    return total


def all_agents(marks: np.ndarray) -> np.ndarray:
    """Return bool (N,): True where all agents are marked in `marks`, bool (N, A)."""
    marked: np.ndarray = marks[:, 0].copy()
    for agent in range(1, marks.shape[1]):
        marked &= marks[:, agent]
    return marked


def only(infos: Mapping[str, Any], kept_envs: np.ndarray) -> dict[str, Any]:
    """Return copies of VectorGame's infos, with the entries of some environments set to 0 or None.

    `kept_envs` (N,) marks the environments that keep theirs. Keys without entries are left out.
    """
    kept: dict[str, Any] = {}
    for key, value in infos.items():
        if key.startswith("_"):
            continue
        has = infos[f"_{key}"] & kept_envs[:, None]
        if not has.any():
            continue
        if isinstance(value, dict):
            kept[key] = only(value, kept_envs)
        else:
            kept[key] = value.copy()
            kept[key][~has] = None if value.dtype == object else 0
        kept[f"_{key}"] = has
    return kept
