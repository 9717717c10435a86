"""Multitask environment: every episode plays one of several environments, drawn by seed.

    env = parallel_env(
        environments={
            "sums": {"name": "math_v0", "options": {"families": "arithmetic", "difficulty": 1}},
            "programs": {"name": "code_v0", "options": {"difficulty": 1}},
        }
    )

One model learns several tasks at once (docs/environments/tasks.md). All environments must have the
same agents and the same actions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

from srl_envs import registry
from srl_envs.errors import EnvConfigError, EnvError
from srl_envs.games.base import OBSERVATION_MODES, metadata_of, vector_of
from srl_envs.seeding import RandomSource
from srl_envs.tasks.free_text_game import RENDER_MODES, readable_text
from srl_envs.text import ParseFailure, Samples, SpacesOfAgents, TextView
from srl_envs.validation import (
    Reset,
    Step,
    check_choice,
    number_between,
    parallel_form,
    reset_arguments,
)

DEFAULT: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "math": {"name": "math_v0"},
        "code": {"name": "code_v0"},
        "tools": {"name": "tool_use_v0"},
    }
)


@dataclass(frozen=True)
class MultitaskView:
    """Text view of the multitask environment; the observation contains the current label."""

    views: Mapping[str, TextView]
    """Label -> view of the environment."""
    lengths: Mapping[str, int]
    """Label -> length of the environment's observation vector, without the padding."""

    @property
    def first(self) -> TextView:
        """Any of the views, which have the same answers."""
        return next(iter(self.views.values()))

    @property
    def default_action(self) -> Any:
        return self.first.default_action

    @property
    def parse_penalty(self) -> float:
        return self.first.parse_penalty

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
        return self.first.answers(agent)

    def parse(self, agent: str, answer: str) -> Any | ParseFailure:
        # Free texts are read by the current environment; see `of_observation`.
        listed = self.answers(agent)
        return self.first.parse(agent, answer) if listed else readable_text(answer)

    def _label(self, observation: Any) -> str:
        current = int(np.argmax(vector_of(observation)[-len(self.views) :]))
        return list(self.views)[current]


class Multitask(RandomSource, SpacesOfAgents, ParallelEnv):  # type: ignore[misc]  # PettingZoo ships no types
    """Several environments as one PettingZoo ParallelEnv.

    `reset` draws one of the environments, or plays the one that the option "environment" names;
    other options are passed on. The label of the current environment is `environment`, also in
    every info. The observation vector is that of the environment, padded with zeros to the
    longest, followed by a one-hot vector of the label; `state` likewise.

    Args:
        environments: Label -> {"name": registered name or 'module:function', "options": keyword
            arguments}; by default DEFAULT.
        weights: Label -> share of the episodes, equal by default.
        max_cycles: Turns of all environments; by default, those of each.
        obs_mode: Observation mode of all environments.
        render_mode: Render mode of all environments.

    Raises:
        EnvConfigError: An argument is invalid, or the environments differ in their agents, teams,
            actions or penalties.
    """

    metadata: ClassVar[dict[str, Any]] = metadata_of("multitask_v0", render_modes=RENDER_MODES)

    def __init__(
        self,
        environments: Mapping[str, Mapping[str, Any]] | None = None,
        *,
        weights: Mapping[str, float] | None = None,
        max_cycles: int | None = None,
        obs_mode: str = "llm",
        render_mode: str | None = None,
    ) -> None:
        self.obs_mode: str = check_choice("obs_mode", obs_mode, OBSERVATION_MODES)
        self.render_mode: str | None = check_choice(
            "render_mode", render_mode, (None, *RENDER_MODES)
        )
        chosen = dict(DEFAULT) if environments is None else environments
        given = {} if max_cycles is None else {"max_cycles": max_cycles}
        self.named: Mapping[str, Mapping[str, Any]] = chosen
        self.environments = _made(chosen, obs_mode=obs_mode, render_mode=render_mode, **given)
        self._labels = tuple(self.environments)
        self._shares = _shares(weights, self._labels)
        first = next(iter(self.environments.values()))
        for label, env in self.environments.items():
            _refuse_difference(self._labels[0], first, label, env)
        self.possible_agents: list[str] = list(first.possible_agents)
        self.teams: Mapping[str, str] | None = getattr(first, "teams", None)
        self.action_spaces = {agent: first.action_space(agent) for agent in self.possible_agents}
        boxes = {
            agent: [_vector_space(env.observation_space(agent)) for env in self._all]
            for agent in self.possible_agents
        }
        self._length = max(box.shape[0] for own in boxes.values() for box in own)
        self.observation_spaces = {
            agent: _with_vector(first.observation_space(agent), _joined(own, self._length))
            for agent, own in boxes.items()
        }
        states = [_vector_space(env.state_space) for env in self._all]
        self._state_length = max(box.shape[0] for box in states)
        self.state_space = _joined(states, self._state_length)
        self.text_view: TextView = MultitaskView(
            {label: env.unwrapped.text_view for label, env in self.environments.items()},
            {
                label: own.shape[0]
                for label, own in zip(
                    self.environments, boxes[self.possible_agents[0]], strict=True
                )
            },
        )
        self.environment: str | None = None
        self._episode = -1  # Episodes since the last seed, counted from 0.

    @property
    def agents(self) -> list[str]:
        """Agents of the current episode."""
        return [] if self.environment is None else list(self.environments[self.environment].agents)

    @property
    def max_cycles(self) -> int:
        """Turns of the longest episode; setting it takes effect at the next reset."""
        return max(int(env.max_cycles) for env in self._all)

    @max_cycles.setter
    def max_cycles(self, turns: int) -> None:
        for env in self._all:
            env.max_cycles = turns

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        """Start an episode of one of the environments; without a seed, continue the last one.

        The environment receives the number of the episode since that seed as option "episode". A
        refused argument raises EnvConfigError.
        """
        seed, given = reset_arguments(seed, options)
        if seed is not None:
            self.np_random = np.random.default_rng(seed)
        self._episode = 0 if seed is not None else self._episode + 1
        drawn = str(self.np_random.choice(self._labels, p=self._shares))
        own_seed = int(self.np_random.integers(2**31))
        named = given.get("environment")
        self.environment = (
            drawn if named is None else check_choice("environment", named, self._labels)
        )
        # The environment is seeded in every episode and cannot count them.
        options = {"episode": self._episode, **given}
        observations, infos = self._on("reset").reset(seed=own_seed, options=options)
        return self._seen(observations), self._told(infos)

    def step(self, actions: Mapping[str, Any]) -> Step:
        observations, rewards, terminations, truncations, infos = self._on("step").step(actions)
        return self._seen(observations), rewards, terminations, truncations, self._told(infos)

    def state(self) -> np.ndarray:
        return self._padded(self._on("state").state(), self._state_length)

    def sample_answers(self, agent: str, rng: np.random.Generator, count: int) -> Samples:
        offer = getattr(self._on("sample_answers").unwrapped, "sample_answers", None)
        found: Samples = None if offer is None else offer(agent, rng, count)
        return found

    def baselines(self) -> dict[str, float]:
        return {}

    def render(self) -> str | None:
        picture: str | None = self._on("render").render()
        return picture

    def close(self) -> None:
        for env in self._all:
            env.close()

    @property
    def _all(self) -> list[Any]:
        return list(self.environments.values())

    def _on(self, call: str) -> Any:
        if self.environment is None:
            raise EnvError(f"{call}() before the first reset(): call reset() first")
        return self.environments[self.environment]

    def _seen(self, observations: Mapping[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for agent, seen in observations.items():
            vector = self._padded(vector_of(seen), self._length)
            is_mapping = isinstance(seen, Mapping)
            found[agent] = {**seen, "observation": vector} if is_mapping else vector
        return found

    def _told(self, infos: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
        return {agent: {**info, "environment": self.environment} for agent, info in infos.items()}

    def _padded(self, vector: np.ndarray, length: int) -> np.ndarray:
        padded = np.zeros(length + len(self._labels), np.float32)
        padded[: len(vector)] = vector
        padded[length + self._labels.index(str(self.environment))] = 1.0
        return padded


def _made(environments: Any, **given: Any) -> dict[str, Any]:
    entries = environments if isinstance(environments, Mapping) else {}
    forms = ({"name"}, {"name", "options"})
    named = [isinstance(one, Mapping) and set(one) in forms for one in entries.values()]
    if not named or not all(named):
        raise EnvConfigError(
            f"environments must be label -> {{'name': ..., 'options': ...}}, got {environments!r}"
        )
    made = {}
    for label, entry in entries.items():
        name, options = entry["name"], entry.get("options") or {}
        if not isinstance(options, Mapping) or not all(isinstance(key, str) for key in options):
            raise EnvConfigError(f"environments.{label}.options must be a mapping, got {options!r}")
        if both := set(given) & set(options):
            raise EnvConfigError(
                f"environments.{label}.options.{min(both)} is the same for all: give it next to "
                "environments"
            )
        if str(name).partition(":")[0] == "multitask_v0":
            raise EnvConfigError(f"environments.{label} must not be multitask_v0 itself")
        try:
            made[str(label)] = registry.make(name, **options, **given)
        except EnvConfigError as error:
            raise EnvConfigError(f"environments.{label}: {error}") from error
    return made


def _shares(weights: Mapping[str, float] | None, labels: Sequence[str]) -> list[float]:
    given = dict.fromkeys(labels, 1.0) if weights is None else weights
    if not isinstance(given, Mapping) or set(given) != set(labels):
        raise EnvConfigError(f"weights is {weights!r}: give one for each of {', '.join(labels)}")
    shares = [number_between(f"weights.{label}", given[label], 0.0, 1e9) for label in labels]
    if not sum(shares):
        raise EnvConfigError("weights are all 0: one environment at least must be played")
    return [share / sum(shares) for share in shares]


def _refuse_difference(first_label: str, first: Any, label: str, env: Any) -> None:
    expected, facts = _facts(first), _facts(env)
    for what in expected:
        if facts[what] != expected[what]:
            raise EnvConfigError(
                f"environments.{first_label} and environments.{label} must have the same {what}, "
                f"got {expected[what]} and {facts[what]}"
            )


def _facts(env: Any) -> dict[str, Any]:
    view, agents = getattr(env.unwrapped, "text_view", None), list(env.possible_agents)
    if view is None or not isinstance(getattr(env, "state_space", None), spaces.Box):
        raise EnvConfigError(f"environments must have a text_view and a state_space, got {env}")
    observed = env.observation_space(agents[0])
    return {
        "agents": agents,
        "teams": getattr(env, "teams", None),
        "actions": [env.action_space(agent) for agent in agents],
        "answers": [view.answers(agent) for agent in agents],
        "default action": view.default_action,
        "parse penalty": view.parse_penalty,
        "observations": sorted(observed) if isinstance(observed, spaces.Dict) else None,
    }


def _vector_space(space: spaces.Space[Any]) -> spaces.Box:
    vector = space["observation"] if isinstance(space, spaces.Dict) else space
    if not isinstance(vector, spaces.Box) or len(vector.shape) != 1:
        raise EnvConfigError(f"environments must observe vectors, got {vector}")
    return vector


def _with_vector(space: spaces.Space[Any], vector: spaces.Box) -> spaces.Space[Any]:
    if isinstance(space, spaces.Dict):
        return spaces.Dict({**space.spaces, "observation": vector})
    return vector


def _joined(boxes: Sequence[spaces.Box], length: int) -> spaces.Box:
    """Return the bounds of all vectors, padded with zeros, and of the one-hot label."""

    def padded(bounds: np.ndarray) -> np.ndarray:
        return np.pad(bounds.astype(np.float32), (0, length - len(bounds)))

    low = np.min([padded(box.low) for box in boxes], axis=0)
    high = np.max([padded(box.high) for box in boxes], axis=0)
    which = np.zeros(len(boxes), np.float32)
    return spaces.Box(np.concatenate([low, which]), np.concatenate([high, which + 1]))


parallel_env = parallel_form(Multitask)
