"""Multitask environment: every episode is one of several environments, drawn by seed.

One model learns several tasks at once (docs/environments/games.md#multitask_v0).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

from srl_envs import registry
from srl_envs.errors import EnvConfigError, EnvError
from srl_envs.games.base import metadata_of, vector_of
from srl_envs.seeding import RandomSource
from srl_envs.tasks.free_text_game import RENDER_MODES, readable_text
from srl_envs.text import ParseFailure, Samples, SpacesOfAgents, TextView
from srl_envs.validation import (
    Reset,
    Step,
    check_choice,
    reset_arguments,
)

DEFAULT: Mapping[str, Mapping[str, Any]] = {
    "math": {"name": "math_v0"},
    "code": {"name": "code_v0"},
    "tools": {"name": "tool_use_v0"},
}


@dataclass(frozen=True)
class MultitaskView:
    """Text view with the rules of all environments; the observed label selects the description."""

    views: Mapping[str, TextView]
    """Label -> view of the environment; all views have the same answers."""
    lengths: Mapping[str, int]
    """Label -> length of the environment's observation vector, without the padding."""
    default_action: Any
    parse_penalty: float

    def of_observation(self, observation: Any) -> TextView:
        return self.views[self._label(observation)]

    def rules(self, agent: str) -> str:
        rules = [f"{label}: {view.rules(agent)}" for label, view in self.views.items()]
        return "Every episode is one of these.\n" + "\n".join(rules)

    def describe(self, agent: str, observation: Any) -> str:
        label = self._label(observation)
        own = vector_of(observation)[: self.lengths[label]]
        if isinstance(observation, Mapping):
            own = {**observation, "observation": own}
        return self.views[label].describe(agent, own)

    def answers(self, agent: str) -> tuple[str, ...]:
        return next(iter(self.views.values())).answers(agent)

    def parse(self, agent: str, answer: str) -> Any | ParseFailure:
        # Free texts are read by the current environment; see `of_observation`.
        if not self.answers(agent):
            return readable_text(answer)
        return next(iter(self.views.values())).parse(agent, answer)

    def _label(self, observation: Any) -> str:
        current = int(np.argmax(vector_of(observation)[-len(self.views) :]))
        return list(self.views)[current]


class Multitask(RandomSource, SpacesOfAgents, ParallelEnv):  # type: ignore[misc]  # PettingZoo ships no types
    """Several environments as one PettingZoo ParallelEnv, of which each episode is one.

    `reset` draws one of the environments with equal probabilities, or starts the one that the
    option "environment" names. The attribute `environment`, also in every info, is the label of the
    current environment, and None before the first reset. The observation vector is that of the
    environment, padded with zeros to the longest, followed by a one-hot vector of the label;
    `state` likewise.

    Args:
        environments: Label -> {"name": registered name or 'module:function', "options": keyword
            arguments without obs_mode and render_mode, optional}; by default DEFAULT.
        max_cycles: `max_cycles` of all, then refused in "options"; by default, that of each.
        obs_mode: Observation mode of all.
        render_mode: Render mode of all environments.

    Raises:
        EnvConfigError: An argument is invalid, or the environments differ in their agents, teams,
            actions, answers, penalties or observation keys.
        SandboxError: The programs of code_v0 (in DEFAULT) cannot be confined.
    """

    metadata: ClassVar[dict[str, Any]] = metadata_of("multitask_v0", render_modes=RENDER_MODES)

    def __init__(
        self,
        environments: Mapping[str, Mapping[str, Any]] | None = None,
        *,
        max_cycles: int | None = None,
        obs_mode: str = "llm",
        render_mode: str | None = None,
    ) -> None:
        self.obs_mode, self.render_mode = obs_mode, render_mode
        self.named = dict(DEFAULT) if environments is None else environments
        shared = {} if max_cycles is None else {"max_cycles": max_cycles}
        self.environments = _made(self.named, obs_mode=obs_mode, render_mode=render_mode, **shared)
        self._labels = tuple(self.environments)
        self._all = list(self.environments.values())
        first, expected = self._all[0], _facts(self._all[0])
        for label, env in self.environments.items():
            different = [name for name, fact in _facts(env).items() if fact != expected[name]]
            if different:
                raise EnvConfigError(
                    f"environments.{self._labels[0]} and environments.{label} must have the same "
                    f"{different[0]}"
                )
        self.possible_agents: list[str] = list(first.possible_agents)
        self.teams: Mapping[str, str] | None = getattr(first, "teams", None)
        self.action_spaces = {agent: first.action_space(agent) for agent in self.possible_agents}
        self.observation_spaces = {
            agent: _joined([env.observation_space(agent) for env in self._all])
            for agent in self.possible_agents
        }
        self.state_space = _joined([env.state_space for env in self._all])
        one, view = self.possible_agents[0], first.unwrapped.text_view
        self.text_view: TextView = MultitaskView(
            {label: env.unwrapped.text_view for label, env in self.environments.items()},
            {
                label: vector_of(env.observation_space(one)).shape[0]
                for label, env in self.environments.items()
            },
            view.default_action,
            view.parse_penalty,
        )
        self.environment: str | None = None
        self._episode = -1  # Index of the episode since the last seed.

    @property
    def agents(self) -> list[str]:
        """Agents of the running episode, none before the first reset and after the end."""
        return [] if self.environment is None else list(self.environments[self.environment].agents)

    @property
    def max_cycles(self) -> int:
        """Largest `max_cycles` of the environments. Setting it sets all, for the next reset."""
        return max(int(env.max_cycles) for env in self._all)

    @max_cycles.setter
    def max_cycles(self, turns: int) -> None:  # PettingZoo's tests set it.
        for env in self._all:
            env.max_cycles = turns

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        """Start an episode of one environment; return observations and infos, both by agent.

        The option "environment" is a label, drawn by default. The environment receives all options,
        and "episode", by default the number of resets since the last seed, from 0. A seed of None
        continues the random stream. Raises EnvConfigError for an invalid seed or option.
        """
        seed, given = reset_arguments(seed, options)
        if seed is not None:
            self.np_random = np.random.default_rng(seed)
        self._episode = 0 if seed is not None else self._episode + 1
        shares = [1 / len(self._labels)] * len(self._labels)
        drawn = str(self.np_random.choice(self._labels, p=shares))
        own_seed = int(self.np_random.integers(2**31))
        label = given.get("environment") or drawn
        self.environment = check_choice("environment", label, self._labels)
        # The environment is seeded in every episode and cannot count them.
        options = {"episode": self._episode, **given}
        observations, infos = self._current("reset").reset(seed=own_seed, options=options)
        return self._observations(observations), self._infos(infos)

    def step(self, actions: Mapping[str, Any]) -> Step:
        observations, *rest, infos = self._current("step").step(actions)
        return self._observations(observations), *rest, self._infos(infos)

    def state(self) -> np.ndarray:
        padded: np.ndarray = self._padded(self._current("state").state(), self.state_space)
        return padded

    def sample_answers(self, agent: str, rng: np.random.Generator, count: int) -> Samples:
        offer = getattr(self._current("sample_answers").unwrapped, "sample_answers", None)
        found: Samples = None if offer is None else offer(agent, rng, count)
        return found

    def render(self) -> str | None:
        picture: str | None = self._current("render").render()
        return picture

    def close(self) -> None:
        for env in self._all:
            env.close()

    def _current(self, call: str) -> Any:
        if self.environment is None:
            raise EnvError(f"{call}() before the first reset(): call reset() first")
        return self.environments[self.environment]

    def _observations(self, observations: Mapping[str, Any]) -> dict[str, Any]:
        return {
            agent: self._padded(observation, self.observation_spaces[agent])
            for agent, observation in observations.items()
        }

    def _infos(self, infos: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
        return {agent: {**info, "environment": self.environment} for agent, info in infos.items()}

    def _padded(self, observation: Any, space: Any) -> Any:
        if isinstance(observation, Mapping):
            vector = self._padded(observation["observation"], space["observation"])
            return {**observation, "observation": vector}
        padded = np.zeros(space.shape, np.float32)
        padded[: len(observation)] = observation
        padded[self._labels.index(str(self.environment)) - len(self._labels)] = 1.0
        return padded


def _made(environments: Any, **shared: Any) -> dict[str, Any]:
    entries = environments if isinstance(environments, Mapping) else {}
    made = {}
    for label, entry in entries.items():
        where = f"environments.{label}"
        if not isinstance(entry, Mapping) or set(entry) not in ({"name"}, {"name", "options"}):
            break
        name, options = entry["name"], entry.get("options") or {}
        if not isinstance(options, Mapping) or not all(isinstance(key, str) for key in options):
            break
        if both := set(shared) & set(options):
            raise EnvConfigError(
                f"{where}.options must not contain {min(both)}, an argument of multitask_v0"
            )
        if str(name).partition(":")[0] == "multitask_v0":
            raise EnvConfigError(f"{where} must not be multitask_v0 itself")
        try:
            made[str(label)] = registry.make(name, **options, **shared)
        except EnvConfigError as error:
            raise EnvConfigError(f"{where}: {error}") from error
    if not made or len(made) < len(entries):
        raise EnvConfigError(
            f"environments must be label -> {{'name': ..., 'options': ...}}, got {environments!r}"
        )
    return made


def _facts(env: Any) -> dict[str, Any]:
    view, agents = getattr(env.unwrapped, "text_view", None), list(env.possible_agents)
    observed = env.observation_space(agents[0])
    vectors = (getattr(env, "state_space", None), vector_of(observed))
    if view is None or not all(isinstance(each, spaces.Box) for each in vectors):
        raise EnvConfigError(
            f"environments must have a text_view, a state_space and vectors as observations: {env}"
        )
    return {
        "agents": agents,
        "teams": getattr(env, "teams", None),
        "actions": [env.action_space(agent) for agent in agents],
        "answers": [view.answers(agent) for agent in agents],
        "default action": view.default_action,
        "parse penalty": view.parse_penalty,
        "observations": sorted(observed) if isinstance(observed, spaces.Dict) else None,
    }


def _joined(members: Sequence[Any]) -> Any:
    """Return one space for the members' vectors, padded and followed by a one-hot label."""
    if isinstance(members[0], spaces.Dict):
        vector = _joined([space["observation"] for space in members])
        return spaces.Dict({**members[0].spaces, "observation": vector})
    length = max(box.shape[0] for box in members)
    low, high = (
        [np.pad(bounds, (0, length - len(bounds))) for bounds in ends]
        for ends in zip(*((box.low, box.high) for box in members), strict=True)
    )
    label = np.zeros(len(members), np.float32)
    return spaces.Box(
        np.concatenate([np.min(low, axis=0), label]).astype(np.float32),
        np.concatenate([np.max(high, axis=0), label + 1]).astype(np.float32),
    )


parallel_env = Multitask
