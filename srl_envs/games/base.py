"""Base class of games of simultaneous discrete choices: seeding, spaces, rounds, rendering.

Seeding in `reset(seed)`, spaces made once, three observation modes, the end at `max_cycles`,
the refusal of impossible actions, and rendering. A game says who sees and earns what.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from operator import index
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

from srl_envs.errors import EnvError
from srl_envs.games import rendering
from srl_envs.loading.untrusted import printable
from srl_envs.text.spaces import TEXT_LENGTH, TextSpace
from srl_envs.text.view import TextView
from srl_envs.validation import (
    Step,
    asks_nothing,
    check_choice,
    number_between,
    reset_arguments,
    unchanged_if_refused,
    whole_number,
)

OBSERVATION_MODES = ("vector", "dict", "llm")
RENDER_MODES = ("human", "ansi", "rgb_array")

NOISE_LIMIT = 8.0  # standard deviations; clipped there so that observed rewards have a true bound

NOISE_BLOCK = 256  # numbers that are drawn at a time

Row = Sequence[float]
FLOAT = np.dtype(np.float32)


class SimultaneousGame(ParallelEnv):  # type: ignore[misc]  # PettingZoo ships no types
    """A PettingZoo ParallelEnv in which every agent picks one of the same actions each round.

    Observations, by `obs_mode`:

    - "vector": a float32 vector, laid out the same for every agent; the int8 mask of legal actions
      is in `infos[agent]["action_mask"]`.
    - "dict": `{"observation": vector, "action_mask": mask}`.
    - "llm": the same with `"text"`, the situation in words, beside them.

    An episode ends for all agents at once: truncated after `max_cycles` rounds, or terminated where
    the game says that it is `finished`. Setting `max_cycles` takes effect at the next reset. Raises
    EnvConfigError for wrong arguments and EnvError for wrong use.

    A game gives the bounds of an observation and its `reward_ceiling` (for rendering), and defines
    `first_rows`, `play_round`, `make_view` and `baselines`. It may read
    `played` (rounds so far, this one included) and `rounds` (of this episode), draws its noise from
    `noise(count)`, sets `finished` in the round that decides it, and may say more in `first_infos`,
    `masks`, `phase`, `notes`, `drawn_in_text` and `drawn_in_pixels`.
    """

    metadata: ClassVar[dict[str, Any]]
    text_view: TextView
    """How this environment reads and is answered."""
    teams: Mapping[str, str] | None = None
    """Agent -> team, where the game has teams."""

    def __init__(
        self,
        agents: Sequence[str],
        answers: Sequence[str],
        low: Row,
        high: Row,
        *,
        reward_ceiling: float,
        noise_std: float = 0.0,
        max_cycles: int,
        obs_mode: str,
        render_mode: str | None,
    ) -> None:
        self.possible_agents = list(agents)
        self.agents: list[str] = []
        self.max_cycles = whole_number("max_cycles", max_cycles, low=1)
        self.obs_mode: str = check_choice("obs_mode", obs_mode, OBSERVATION_MODES)
        self.render_mode: str | None = check_choice(
            "render_mode", render_mode, (None, *RENDER_MODES)
        )
        self.noise_std = number_between("noise_std", noise_std, 0.0)
        self.reward_ceiling = reward_ceiling
        self._answers = tuple(answers)
        self.action_spaces = {agent: spaces.Discrete(len(answers)) for agent in agents}
        self.observation_spaces = {agent: self._space_of(low, high) for agent in agents}
        size = len(self.possible_agents)
        self.state_space = spaces.Box(
            np.tile(np.asarray(low, np.float32), size), np.tile(np.asarray(high, np.float32), size)
        )
        self._every_action = np.ones((size, len(answers)), np.int8)
        self._generator = np.random.default_rng()
        self._noise: list[float] = []  # drawn and not yet used, the next one last
        self.played = 0
        self.rounds = self.max_cycles
        self.finished = False
        self._rows: Sequence[Row] = ()
        self._shown: tuple[Sequence[int | None], Sequence[float | None]] = ((), ())
        self._shown_phase = ""
        self._past: list[tuple[Sequence[int], Sequence[float]]] = []  # kept for pictures only
        self.text_view = self.make_view()

    # What a game defines.

    def first_rows(self, options: Mapping[str, Any]) -> Sequence[Row]:
        """Begin an episode; the agents' first observations."""
        raise NotImplementedError

    def play_round(
        self, chosen: Sequence[int], over: bool
    ) -> tuple[Sequence[Row], Sequence[float], list[dict[str, Any]]]:
        """One round: observations, rewards and infos in agent order."""
        raise NotImplementedError

    def make_view(self) -> TextView:
        """The view for episodes of `self.max_cycles` rounds."""
        raise NotImplementedError

    def baselines(self) -> dict[str, float]:
        """Mean reward per agent and step, without noise: 'uniform' play and the joint 'optimum'."""
        raise NotImplementedError

    # What a game may say besides.

    def phase(self) -> str:
        """A word for the rendered headline, such as the phase of the game in the next round."""
        return ""

    def notes(self) -> Sequence[str]:
        """Labels beside the agents' names in a picture, in agent order, such as their roles."""
        return ()

    def first_infos(self) -> list[dict[str, Any]]:
        """The agents' infos at the start of an episode, in agent order."""
        return [{} for _ in self.possible_agents]

    def masks(self) -> Sequence[np.ndarray] | np.ndarray:
        """The int8 mask of each agent's legal actions now; they are copied before they go out."""
        return self._every_action

    def drawn_in_text(self) -> str:
        """The last round as lines of plain text, the last one ended."""
        return rendering.ansi(self._scene())

    def drawn_in_pixels(self) -> np.ndarray:
        """The last round as a uint8 array (height, width, 3)."""
        return rendering.rgb_array(self._scene())

    # What a game may use.

    def headline(self) -> str:
        """The first line of a picture: the game, the round that it shows and its phase."""
        told = f"{self.metadata['name']} round {self.played}/{self.rounds} {self._shown_phase}"
        return told.rstrip()

    def noise(self, count: int) -> list[float]:
        """`count` clipped normal numbers times `noise_std`, from this environment's generator."""
        if len(self._noise) < count:
            # In blocks: one call of the generator takes longer than the rest of a round's rules.
            block = self._generator.standard_normal(count + NOISE_BLOCK)
            block = block.clip(-NOISE_LIMIT, NOISE_LIMIT) * self.noise_std
            self._noise = block.tolist()[::-1] + self._noise
        return [self._noise.pop() for _ in range(count)]

    # PettingZoo's interface.

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """The agent's observation space, the same object on every call."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Discrete:
        """The agent's action space, the same object on every call."""
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """Start an episode; a seed restarts all randomness, None carries on from the last.

        Options that the game does not know are ignored, as PettingZoo's own tests want. Raises
        EnvConfigError for a wrong seed, options or `max_cycles`; then nothing has changed.
        """
        seed, given = reset_arguments(seed, options)
        rounds = whole_number("max_cycles", self.max_cycles, low=1)
        viewed = self.rounds
        with unchanged_if_refused(self, "_generator", "rounds", "played", "finished"):
            if seed is not None:
                self._generator = np.random.default_rng(seed)
            self.rounds, self.played, self.finished = rounds, 0, False
            self._rows = self.first_rows(given)
        if rounds != viewed:
            self.text_view = self.make_view()
        if seed is not None:
            self._noise = []
        self.agents = list(self.possible_agents)
        nothing = [None] * len(self.agents)
        self._shown, self._past, self._shown_phase = (nothing, nothing), [], self.phase()
        infos = dict(zip(self.agents, self.first_infos(), strict=True))
        for info, mask in zip(infos.values(), np.array(self.masks()), strict=True):
            info["action_mask"] = mask
        if self.render_mode == "human":
            self.render()
        vectors = dict(zip(self.agents, np.array(self._rows, FLOAT), strict=True))
        return self._observations(vectors), infos

    def step(self, actions: Mapping[str, Any]) -> Step:
        """Play one round with one action per agent.

        Raises EnvError for a missing or unknown agent, an action outside the space, or no episode;
        after the end of one, no actions bring nothing.
        """
        if asks_nothing(bool(self._rows), self.agents, actions):
            return {}, {}, {}, {}, {}
        chosen, agents = self._chosen(actions), self.agents
        if self.render_mode is not None:
            self._shown_phase = self.phase()  # of this round; afterwards it is the next one's
        self.played += 1
        out_of_time = self.played >= self.rounds
        self._rows, earned, said = self.play_round(chosen, out_of_time)
        if out_of_time or self.finished:
            self.agents = []
        if self.render_mode is not None:
            self._shown = (chosen, earned)
            self._past.append(self._shown)
        if self.render_mode == "human":
            self.render()
        vectors, masks = np.array(self._rows, FLOAT), np.array(self.masks())
        observations, rewards, infos = {}, {}, {}
        # Not strict: to ask an array for a row past its last costs as much as making it.
        for agent, vector, reward, info, mask in zip(
            agents, vectors, earned, said, masks, strict=False
        ):
            info["action_mask"] = mask
            observations[agent], rewards[agent], infos[agent] = vector, reward, info
        return (
            self._observations(observations),
            rewards,
            dict.fromkeys(agents, self.finished),
            dict.fromkeys(agents, out_of_time and not self.finished),
            infos,
        )

    def state(self) -> np.ndarray:
        """All agents' observation vectors one after another (float32), for centralised critics."""
        if not self._rows:
            raise EnvError("state() before the first reset(): call reset() first")
        return np.array(self._rows, FLOAT).ravel()

    def render(self) -> np.ndarray | str | None:
        """The last round as this environment's render mode wants it; "human" writes to stdout."""
        if self.render_mode is None:
            raise EnvError(
                f"render() needs a render_mode: construct with one of {', '.join(RENDER_MODES)}"
            )
        if not self._rows:
            raise EnvError("render() before the first reset(): call reset() first")
        if self.render_mode == "rgb_array":
            return self.drawn_in_pixels()
        if self.render_mode == "ansi":
            return self.drawn_in_text()
        sys.stdout.write(printable(self.drawn_in_text()))
        return None

    def close(self) -> None:
        """Nothing is held open."""

    # The machinery.

    def _chosen(self, actions: Any) -> list[int]:
        """The actions in agent order; raises EnvError where one is missing, unknown or illegal."""
        if not self.agents:
            raise EnvError("step() without a running episode: call reset() first")
        if not isinstance(actions, Mapping):
            raise EnvError(f"actions must be a mapping agent -> action, got {actions!r}")
        chosen = []
        for agent in self.agents:
            if agent not in actions:
                raise EnvError(f"no action for {agent}: step() needs one for each of {self.agents}")
            try:
                action = index(actions[agent])
            except TypeError:  # no whole number
                action = -1
            if not 0 <= action < len(self._answers):
                raise EnvError(
                    f"action {actions[agent]!r} of {agent} is outside "
                    f"{self.action_spaces[agent]}: give an int from 0 to {len(self._answers) - 1}"
                )
            chosen.append(action)
        if len(actions) > len(chosen):
            unknown = next(agent for agent in actions if agent not in self.agents)
            raise EnvError(f"an action for {unknown!r}, who is not among {self.agents}")
        return chosen

    def _scene(self) -> rendering.Scene:
        chosen, rewards = self._shown
        return rendering.Scene(
            headline=self.headline(),
            agents=tuple(self.possible_agents),
            choices=tuple(chosen),
            rewards=tuple(rewards),
            answers=self._answers,
            ceiling=self.reward_ceiling,
            past=self._past,
            notes=tuple(self.notes()),
            teams=tuple(self.teams[agent] for agent in self.possible_agents) if self.teams else (),
        )

    def _space_of(self, low: Row, high: Row) -> spaces.Space[Any]:
        vector = spaces.Box(np.asarray(low, np.float32), np.asarray(high, np.float32))
        if self.obs_mode == "vector":
            return vector
        parts: dict[str, spaces.Space[Any]] = {
            "observation": vector,
            "action_mask": spaces.Box(0, 1, (len(self._answers),), np.int8),
        }
        if self.obs_mode == "llm":
            parts["text"] = TextSpace(TEXT_LENGTH)
        return spaces.Dict(parts)

    def _observations(self, vectors: dict[str, np.ndarray]) -> dict[str, Any]:
        """The agents' observations: their vectors, with the rest of `obs_mode`."""
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
    """The observation vector of any observation mode."""
    return observation["observation"] if isinstance(observation, Mapping) else observation
