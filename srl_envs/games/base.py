"""Base classes of games in rounds: seeds, spaces, masks, noise, rendering, checks of actions."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Mapping, Sequence
from copy import deepcopy
from operator import index, itemgetter
from pkgutil import resolve_name
from statistics import fmean
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from pettingzoo import ParallelEnv

from srl_envs.errors import EnvError
from srl_envs.games import rendering
from srl_envs.seeding import RandomSource
from srl_envs.text import TEXT_LENGTH, SpacesOfAgents, TextSpace, TextView
from srl_envs.untrusted import printable
from srl_envs.validation import (
    Reset,
    Step,
    asks_nothing,
    check_choice,
    number_between,
    reset_arguments,
    whole_number,
)

OBSERVATION_MODES = ("vector", "dict", "llm")
RENDER_MODES = ("human", "ansi", "rgb_array")
EPISODES = 64  # number of episodes of `baselines` that are mean returns
PLAY, POLICY = "srl_agents.rollout:play", "srl_agents.scripted.registry:classic_policy"
HIDDEN = -1.0
"""Value in an observation vector for a parameter that is hidden from the agents."""
NOISE_LIMIT = 8.0  # Noise is clipped at this many standard deviations, so that rewards are bounded.
NOISE_BLOCK = 256  # numbers drawn at a time

FLOAT = np.dtype(np.float32)
WIDTH = FLOAT.itemsize
Row = Sequence[float]
Played = tuple[Sequence[Row], Sequence[float], list[dict[str, Any]]]
"""Observations, rewards and infos of a round, in agent order."""


def metadata_of(
    name: str, *, render_modes: Sequence[str] = RENDER_MODES, fps: int = 1
) -> dict[str, Any]:
    """Return the `metadata` of a PettingZoo environment whose agents act at the same time.

    Args:
        name: Name of the environment, with its version.
        render_modes: Modes that the constructor accepts as `render_mode`.
        fps: Number of rounds per second of video.
    """
    return {
        "name": name,
        "render_modes": list(render_modes),
        "render_fps": fps,
        "is_parallelizable": True,
    }


class RoundGame(RandomSource, SpacesOfAgents, ParallelEnv):  # type: ignore[misc]  # PettingZoo ships no types
    """Base class of PettingZoo ParallelEnvs that last at most `max_cycles` rounds.

    A subclass defines the methods that raise NotImplementedError; the constructor calls some of
    them. Arguments are as in SimultaneousGame. Invalid arguments raise EnvConfigError.
    """

    metadata: ClassVar[dict[str, Any]]
    render_modes: ClassVar[Sequence[str]] = RENDER_MODES
    text_view: TextView
    """Text view, from make_view: prompts for observations, and actions for answers."""
    teams: Mapping[str, str] | None = None
    """Agent -> its team, None for a game without teams."""

    def __init__(
        self,
        agents: Sequence[str],
        low: Row,
        high: Row,
        *,
        max_cycles: int,
        obs_mode: str,
        render_mode: str | None,
    ) -> None:
        self.possible_agents = list(agents)
        self.agents: list[str] = []
        self.max_cycles = whole_number("max_cycles", max_cycles, low=1)
        self.obs_mode: str = check_choice("obs_mode", obs_mode, OBSERVATION_MODES)
        self.render_mode: str | None = check_choice(
            "render_mode", render_mode, (None, *self.render_modes)
        )
        # All features have one upper bound, because SuperSuit's agent_indicator_v0 adds features
        # with the greatest bound as their value and the least bound as their limit.
        bounds = np.asarray(low, FLOAT), np.full(len(high), max(high), FLOAT)
        self.action_spaces = {agent: self._actions() for agent in agents}
        self.observation_spaces = {agent: self._space_of(spaces.Box(*bounds)) for agent in agents}
        size = len(self.possible_agents)
        self.state_space = spaces.Box(np.tile(bounds[0], size), np.tile(bounds[1], size))
        self.played = 0
        self.rounds = self.max_cycles
        self._episode = -1  # number of the episode since the last seed, from 0
        self._begun = False
        self.text_view = self.with_words(self.make_view())

    # Defined by each kind of game.

    def make_view(self) -> TextView:
        """Return the text view for episodes of `self.max_cycles` rounds."""
        raise NotImplementedError

    def with_words(self, view: TextView) -> TextView:
        """Return the environment's text view, here `view`; `view` is the result of `make_view`."""
        return view

    def drawn_in_text(self) -> str:
        """Return a drawing of the last round, or of the start, as text of several lines."""
        raise NotImplementedError

    def begin(self, options: Mapping[str, Any]) -> None:
        """Start an episode with the options of `reset`; raise EnvConfigError for invalid ones."""
        raise NotImplementedError

    def _actions(self) -> spaces.Space[Any]:
        raise NotImplementedError

    def _first(self) -> Reset:
        raise NotImplementedError

    def _vectors(self) -> Sequence[Row]:
        raise NotImplementedError

    def baselines(self) -> dict[str, float]:
        """Return expected mean rewards per agent and step of reference policies; here {}.

        Rewards are without noise. Keys are 'uniform' (random actions), 'constant' (the best
        constant actions), 'optimum' (best joint actions) and, unless agents are replaced during
        episodes, 'scripted' ("win_stay_lose_shift" in bandits, else "explore_then_commit").
        """
        return {}

    # PettingZoo's interface.

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        """Start an episode, printed in render mode "human"; return observations and infos by agent.

        Args:
            seed: Seed that determines the episode. None continues `np_random`.
            options: Options of the game. Unknown ones are ignored, as PettingZoo's tests require.

        Raises:
            EnvConfigError: The seed, an option or `max_cycles` is invalid.
        """
        seed, given = reset_arguments(seed, options)
        if self.max_cycles is not self.rounds:
            self.rounds = whole_number("max_cycles", self.max_cycles, low=1)
            self.text_view = self.with_words(self.make_view())
        self._episode += 1
        if seed is not None:
            self.np_random, self._episode = np.random.default_rng(seed), 0
        self.played = 0
        self.begin(given)
        self.agents = list(self.possible_agents)
        self._begun = True
        first = self._first()
        if self.render_mode == "human":
            self.render()
        return first

    def state(self) -> np.ndarray:
        """Return the vectors of `possible_agents` as one flat array; EnvError before `reset`."""
        if not self._begun:
            raise EnvError("state() before the first reset(): call reset() first")
        return np.array(self._vectors(), FLOAT).ravel()

    def render(self) -> np.ndarray | str | None:
        """Return the last round as text ("ansi") or picture ("rgb_array"), or print it ("human").

        A picture is a uint8 array (height, width, 3). A printed round returns None. Raises EnvError
        without a render mode or before the first reset. Pictures raise ImportError without Pillow.
        """
        if self.render_mode is None:
            raise EnvError(
                f"render() needs a render_mode: construct with one of "
                f"{', '.join(self.render_modes)}"
            )
        if not self._begun:
            raise EnvError("render() before the first reset(): call reset() first")
        if self.render_mode == "rgb_array":
            return rendering.picture(self.drawn_in_text())
        if self.render_mode == "ansi":
            return self.drawn_in_text()
        sys.stdout.write(printable(self.drawn_in_text()))
        return None

    def _space_of(self, vector: spaces.Box) -> spaces.Space[Any]:
        if self.obs_mode == "vector":
            return vector
        parts: dict[str, spaces.Space[Any]] = {"observation": vector}
        actions = self._actions()
        if isinstance(actions, spaces.Discrete):
            parts["action_mask"] = spaces.Box(0, 1, (int(actions.n),), np.int8)
        if self.obs_mode == "llm":
            parts["text"] = TextSpace(TEXT_LENGTH)
        return spaces.Dict(parts)


class SimultaneousGame(RoundGame):
    """Base class of games in which all agents choose one of the same actions in each round.

    Observations, by `obs_mode`:

    - "vector": a float32 vector with the same layout for every agent.
    - "dict": `{"observation": vector, "action_mask": mask}`.
    - "llm": the same with `"text"`, a description of the situation.

    `infos[agent]["action_mask"]` is the int8 mask of legal actions. An episode ends for all agents
    at once: terminated if the game sets `finished`, else truncated after `max_cycles` rounds. A new
    value of `max_cycles` takes effect at the next reset. Invalid arguments raise EnvConfigError,
    invalid use raises EnvError.

    A subclass defines `first_rows`, `play_round` and `make_view`. These methods may read `played`
    (number of rounds with the current one, 0 at the start) and `rounds` (`max_cycles` of this
    episode), call `noise`, and set `finished` in the round that ends the episode.

    Args:
        agents: Names of the agents.
        answers: Any sequence with one entry per action.
        low: Lower bound of each feature of an observation vector.
        high: Upper bounds; the greatest is the upper bound of all features.
        noise_std: Standard deviation of `noise`, at least 0.
        max_cycles: Number of rounds after which an episode is truncated, at least 1.
        obs_mode: "vector", "dict" or "llm".
        render_mode: "human", "ansi", "rgb_array" or None.
    """

    def __init__(
        self,
        agents: Sequence[str],
        answers: Sequence[Any],
        low: Row,
        high: Row,
        *,
        noise_std: float = 0.0,
        max_cycles: int,
        obs_mode: str = "vector",
        render_mode: str | None = None,
    ) -> None:
        self.noise_std = number_between("noise_std", noise_std, 0.0)
        self._num_actions = len(answers)
        self._every_action = np.ones((len(agents), len(answers)), np.int8)
        self._noise: list[float] = []  # unused numbers in reverse order
        self.finished = False
        self._rows: Sequence[Row] = ()
        self._shown: Sequence[Sequence[Any]] = ((), (), ())  # agents, actions and rewards
        self.order: Sequence[int] = range(len(agents))
        super().__init__(
            agents, low, high, max_cycles=max_cycles, obs_mode=obs_mode, render_mode=render_mode
        )

    hides_rules = False
    """True for a variant of HiddenRules, whose text view must not state drawn rules."""
    order: Sequence[int]
    """Number of the agent in each role of the game: 0, 1, ... except in variants of HiddenRules."""
    scripted: ClassVar[str | None] = None
    """Scripted policy in `baselines`, which then are returns; None if they are rewards per step."""
    constant_actions: Sequence[int] = (0,)
    """Actions among which `baselines` looks for the best constant; unused without `scripted`."""

    # Defined by each game.

    def first_rows(self, options: Mapping[str, Any]) -> Sequence[Row]:
        """Start an episode; return the first observation vector of each agent, in agent order.

        Args:
            options: Options of `reset`, empty without any. Unknown ones are ignored.
        """
        raise NotImplementedError

    def play_round(self, chosen: Sequence[int], over: bool) -> Played:
        """Play one round; return vectors, rewards and infos, each in agent order.

        Args:
            chosen: Number of each agent's action, in agent order.
            over: True in the last possible round.
        """
        raise NotImplementedError

    # Overridden by some games.

    def baselines(self) -> dict[str, float]:
        """Return mean returns per agent over the episodes with the seeds 0 to EPISODES - 1.

        Without a `scripted` policy, return {}. Keys are "uniform" (random legal actions),
        "constant" (best of `constant_actions`), "scripted" and "optimum" (`best_return`).
        """
        if self.scripted is None:
            return super().baselines()
        game: Any = deepcopy(self)
        game.render_mode = None
        play, policy = map(resolve_name, (PLAY, POLICY))
        players = {"uniform": policy("uniform", game), "scripted": policy(self.scripted, game)}
        known = dict.fromkeys(("uniform", "constant", "scripted", "optimum"), 0.0)
        paid = dict.fromkeys(self.constant_actions, 0.0)
        for seed in range(EPISODES):
            for name, player in players.items():
                returns = play(game, dict.fromkeys(self.possible_agents, player), seed).returns()
                known[name] += fmean(returns.values()) / EPISODES
            for action in paid:
                game.reset(seed=seed)
                while game.agents:
                    rewards = game.step(dict.fromkeys(game.agents, action))[1]
                    paid[action] += fmean(rewards.values()) / EPISODES
            game.reset(seed=seed)
            known["optimum"] += game.best_return() / EPISODES
        return {**known, "constant": max(paid.values())}

    def first_infos(self) -> list[dict[str, Any]]:
        """Return new infos, here empty, for the start of an episode, in agent order."""
        return [{} for _ in self.possible_agents]

    def masks(self) -> Sequence[np.ndarray] | np.ndarray:
        """Return each agent's int8 mask (1 = legal; here all), in order; callers copy the masks."""
        return self._every_action

    def drawn_in_text(self) -> str:
        width = max(map(len, self.possible_agents))
        lines = [self.headline()]
        for agent, action, reward in zip(*self._shown, strict=True):
            answer = "-" if action is None else self.text_view.answers(agent)[action]
            earned = "" if reward is None else f"{reward:.3f}"
            lines.append(f"{agent:<{width}}  {earned:>7}  {answer}")
        return "\n".join(lines) + "\n"

    # Used by games.

    def headline(self) -> str:
        """Return the first line of a drawing, such as "bandit_v0 round 3/10"."""
        return f"{self.metadata['name']} round {self.played}/{self.rounds}"

    def noise(self, count: int) -> list[float]:
        """Return a list of normal random numbers, clipped to +-NOISE_LIMIT, times `noise_std`.

        Args:
            count: Number of random numbers.
        """
        if len(self._noise) < count:
            # One call of the generator takes longer than the rest of a round.
            block = self.np_random.standard_normal(count + NOISE_BLOCK)
            block = block.clip(-NOISE_LIMIT, NOISE_LIMIT) * self.noise_std
            self._noise = block.tolist()[::-1] + self._noise
        return [self._noise.pop() for _ in range(count)]

    # PettingZoo's interface.

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        first = super().reset(seed, options)
        if seed is not None:
            self._noise = []
        return first

    def step(self, actions: Mapping[str, Any]) -> Step:
        """Play one round with one action per agent, and print it in render mode "human".

        Args:
            actions: Agent -> number of its action; masks are not checked. After the end of an
                episode, an empty mapping returns five empty dicts.

        Returns:
            Observations, rewards, terminations, truncations and infos, each by agent.

        Raises:
            EnvError: An agent is missing or unknown, an action is outside the space, or no episode
                is running.
        """
        if asks_nothing(self._begun, self.agents, actions):
            return {}, {}, {}, {}, {}
        chosen, agents = self._chosen(actions), self.agents
        self.played += 1
        out_of_time = self.played >= self.rounds
        self._rows, earned, round_infos = self.play_round(chosen, out_of_time)
        if out_of_time or self.finished:
            self.agents = []
        if self.render_mode is not None:
            self._shown = (agents, chosen, earned)
        if self.render_mode == "human":
            self.render()
        observations, infos = self._outgoing(agents, round_infos)
        return (
            observations,
            dict(zip(agents, earned, strict=True)),
            dict.fromkeys(agents, self.finished),
            dict.fromkeys(agents, out_of_time and not self.finished),
            infos,
        )

    def begin(self, options: Mapping[str, Any]) -> None:
        self.finished = False
        self._rows = self.first_rows(options)

    def _actions(self) -> spaces.Discrete:
        return spaces.Discrete(self._num_actions)

    def _first(self) -> Reset:
        nothing = [None] * len(self.agents)
        self._shown = self.agents, nothing, nothing
        return self._outgoing(self.agents, self.first_infos())

    def _outgoing(self, agents: Sequence[str], round_infos: list[dict[str, Any]]) -> Reset:
        vectors, masks = np.array(self._rows, FLOAT), np.array(self.masks())
        observations, infos = {}, {}
        # `strict` would double the time: asking an array for a row past its end is slow.
        for agent, vector, info, mask in zip(agents, vectors, round_infos, masks, strict=False):
            info["action_mask"] = mask
            observations[agent], infos[agent] = vector, info
        return self._observations(observations), infos

    def _vectors(self) -> Sequence[Row]:
        return self._rows

    def _chosen(self, actions: Mapping[str, Any]) -> list[int]:
        chosen = []
        for agent in self.agents:
            try:
                action = index(actions[agent])
            except TypeError:
                action = -1
            if not 0 <= action < self._num_actions:
                raise EnvError(
                    f"action {actions[agent]!r} of {agent} is outside "
                    f"{self.action_spaces[agent]}, an int from 0 to {self._num_actions - 1}"
                )
            chosen.append(int(action))  # Comparisons of a subclass of int take longer.
        return chosen

    def _observations(self, vectors: dict[str, np.ndarray]) -> dict[str, Any]:
        if self.obs_mode == "vector":
            return vectors
        observations: dict[str, Any] = {
            agent: {"observation": vector, "action_mask": mask}
            for (agent, vector), mask in zip(vectors.items(), np.array(self.masks()), strict=True)
        }
        if self.obs_mode == "llm":
            for agent, seen in observations.items():
                seen["text"] = self.text_view.describe(agent, seen)
        return observations


def vector_of(observation: Any) -> Any:
    """Return the vector of an observation.

    Args:
        observation: Observation in any `obs_mode`: the vector, or a mapping with "observation".
    """
    if isinstance(observation, np.ndarray):
        return observation  # the usual observation; a check for a Mapping takes longer
    return observation["observation"] if isinstance(observation, Mapping) else observation


def numbers_in(packed: bytes) -> list[float]:
    """Return the float32 numbers that bytes contain, as a list."""
    return array("f", packed).tolist()


def step_baselines(game: Any) -> dict[str, float]:
    """Return `baselines()` of an unwrapped game if these are per step, else {}."""
    inherited = getattr(type(game), "baselines", None) is SimultaneousGame.baselines
    returns = inherited and game.scripted is not None
    return {} if returns else getattr(game, "baselines", dict)()


class VectorLayout:
    """Layout of observation vectors: named fields, one after another.

    Args:
        sizes: Number of values of each field, by name, in order. At least two fields.
    """

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.places: dict[str, slice] = {}
        self.length = 0
        for name, size in sizes.items():
            self.places[name] = slice(self.length, self.length + size)
            self.length += size
        places = self.places.values()
        self._fields_of = itemgetter(*places)
        self._bytes_of = itemgetter(*(slice(WIDTH * p.start, WIDTH * p.stop) for p in places))

    def __call__(self, observation: Any) -> dict[str, NDArray[np.float64]]:
        """Return field name -> float64 array of its values; raise ValueError for another length."""
        vector = np.asarray(vector_of(observation), dtype=np.float64)
        if vector.shape != (self.length,):
            raise ValueError(
                f"the observation must have shape ({self.length},), got {vector.shape}: "
                "construct the policy for the environment that it plays"
            )
        return {name: vector[place] for name, place in self.places.items()}

    def packed(self, observation: Any) -> tuple[bytes, ...]:
        """Return the float32 numbers of each field as bytes, in order: hashable keys of caches.

        `numbers_in` converts them to numbers. The observation's length is not checked.
        """
        vector = np.asarray(vector_of(observation), FLOAT)
        fields: tuple[bytes, ...] = self._bytes_of(vector.tobytes())
        return fields

    def lists(self, observation: Any) -> tuple[list[float], ...]:
        """Return the values of each field, in order; the observation's length is not checked."""
        fields: tuple[list[float], ...] = self._fields_of(vector_of(observation).tolist())
        return fields
