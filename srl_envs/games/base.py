"""Base class of games of simultaneous discrete choices: masks, noise, rounds, pictures.

A game says who sees and earns what; the rest is here and in srl_envs.games.round_game.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import index
from typing import Any

import numpy as np
from gymnasium import spaces

from srl_envs.errors import EnvError
from srl_envs.games import rendering
from srl_envs.games.round_game import FLOAT, RoundGame, Row, metadata_of
from srl_envs.validation import Reset, Step, asks_nothing, number_between

__all__ = ["HIDDEN", "NOISE_LIMIT", "Played", "Row", "SimultaneousGame", "metadata_of", "vector_of"]

HIDDEN = -1.0
"""Stands in an observation vector for what the agents are not shown."""
NOISE_LIMIT = 8.0  # standard deviations; clipped there so that observed rewards have a true bound

NOISE_BLOCK = 256  # numbers that are drawn at a time


Played = tuple[Sequence[Row], Sequence[float], list[dict[str, Any]]]
"""What a round gives: observations, rewards and infos in agent order."""


class SimultaneousGame(RoundGame):
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
    `first_rows`, `play_round` and `make_view`. It may read `played` (rounds so far,
    this one included) and `rounds` (of this episode), draws its noise from `noise(count)`, sets
    `finished` in the round that decides it, and may say more in `baselines`, `first_infos`,
    `masks`, `phase`, `notes`, `drawn_in_text` and `drawn_in_pixels`.
    """

    _restored = (*RoundGame._restored, "finished")

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
        obs_mode: str = "vector",
        render_mode: str | None = None,
    ) -> None:
        self.noise_std = number_between("noise_std", noise_std, 0.0)
        self.reward_ceiling = reward_ceiling
        self._answers = tuple(answers)
        self._every_action = np.ones((len(agents), len(answers)), np.int8)
        self._noise: list[float] = []  # drawn and not yet used, the next one last
        self.finished = False
        self._rows: Sequence[Row] = ()
        self._shown: tuple[Sequence[int | None], Sequence[float | None]] = ((), ())
        self._shown_phase = ""
        self._past: list[tuple[Sequence[int], Sequence[float]]] = []  # kept for pictures only
        super().__init__(
            agents,
            low,
            high,
            max_cycles=max_cycles,
            obs_mode=obs_mode,
            render_mode=render_mode,
        )

    # What a game defines.

    def first_rows(self, options: Mapping[str, Any]) -> Sequence[Row]:
        """Begin an episode; the agents' first observations."""
        raise NotImplementedError

    def play_round(self, chosen: Sequence[int], over: bool) -> Played:
        """One round; `over` says that it is the last one."""
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
            block = self.np_random.standard_normal(count + NOISE_BLOCK)
            block = block.clip(-NOISE_LIMIT, NOISE_LIMIT) * self.noise_std
            self._noise = block.tolist()[::-1] + self._noise
        return [self._noise.pop() for _ in range(count)]

    # PettingZoo's interface.

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        """Start an episode; see RoundGame."""
        first = super().reset(seed, options)
        if seed is not None:
            self._noise = []
        return first

    def step(self, actions: Mapping[str, Any]) -> Step:
        """Play one round with one action per agent.

        Raises EnvError for a missing or unknown agent, an action outside the space, or no episode;
        after the end of one, no actions bring nothing.
        """
        if asks_nothing(self._begun, self.agents, actions):
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

    # The machinery.

    def _actions(self) -> spaces.Discrete:
        return spaces.Discrete(len(self._answers))

    def begin(self, options: Mapping[str, Any]) -> None:
        """Start an episode."""
        self.finished = False
        self._rows = self.first_rows(options)

    def _first(self) -> Reset:
        nothing = [None] * len(self.agents)
        self._shown, self._past, self._shown_phase = (nothing, nothing), [], self.phase()
        infos = dict(zip(self.agents, self.first_infos(), strict=True))
        for info, mask in zip(infos.values(), np.array(self.masks()), strict=True):
            info["action_mask"] = mask
        vectors = dict(zip(self.agents, np.array(self._rows, FLOAT), strict=True))
        return self._observations(vectors), infos

    def _vectors(self) -> Sequence[Row]:
        return self._rows

    def _chosen(self, actions: Mapping[str, Any]) -> list[int]:
        """The actions in agent order; raises EnvError where one is illegal."""
        chosen = []
        for agent in self.agents:
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

    def _space_of(self, vector: spaces.Box) -> spaces.Space[Any]:
        space = super()._space_of(vector)
        if not isinstance(space, spaces.Dict):
            return space
        mask = spaces.Box(0, 1, (len(self._answers),), np.int8)
        return spaces.Dict({**space.spaces, "action_mask": mask})

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
