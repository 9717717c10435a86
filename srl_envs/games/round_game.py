"""Base class of games in rounds, whatever an action is: seeding, spaces, refusals, rendering."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

from srl_envs.errors import EnvError
from srl_envs.seeding import RandomSource
from srl_envs.text import TEXT_LENGTH, SpacesOfAgents, TextSpace, TextView
from srl_envs.untrusted import printable
from srl_envs.validation import (
    Reset,
    check_choice,
    reset_arguments,
    unchanged_if_refused,
    whole_number,
)

OBSERVATION_MODES = ("vector", "dict", "llm")
RENDER_MODES = ("human", "ansi", "rgb_array")

Row = Sequence[float]
FLOAT = np.dtype(np.float32)


def metadata_of(
    name: str, *, render_modes: Sequence[str] = RENDER_MODES, fps: int = 1
) -> dict[str, Any]:
    """PettingZoo's `metadata` of a game in rounds; `fps` is rounds per second of a recording."""
    return {
        "name": name,
        "render_modes": list(render_modes),
        "render_fps": fps,
        "is_parallelizable": True,
    }


class RoundGame(RandomSource, SpacesOfAgents, ParallelEnv):  # type: ignore[misc]  # PettingZoo ships no types
    """A PettingZoo ParallelEnv in rounds, until it is decided or `max_cycles` are over.

    SimultaneousGame and FreeTextGame are the two kinds; what a game of theirs defines is said
    there. `low` and the greatest of `high` bound an agent's observation vector.
    """

    metadata: ClassVar[dict[str, Any]]
    render_modes: ClassVar[Sequence[str]] = RENDER_MODES
    text_view: TextView
    """How this environment reads and is answered."""
    teams: Mapping[str, str] | None = None
    """Agent -> team, where the game has teams."""
    _restored: ClassVar[Sequence[str]] = ("rounds", "played", "_episode")
    """Attributes that a refused reset leaves as they were."""

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
        # One upper bound for all features: SuperSuit's agent_indicator writes the greatest into
        # features that it declares to be at most the least.
        bounds = np.asarray(low, FLOAT), np.full(len(high), max(high), FLOAT)
        self.action_spaces = {agent: self._actions() for agent in agents}
        self.observation_spaces = {agent: self._space_of(spaces.Box(*bounds)) for agent in agents}
        size = len(self.possible_agents)
        self.state_space = spaces.Box(np.tile(bounds[0], size), np.tile(bounds[1], size))
        self.played = 0
        self.rounds = self.max_cycles
        self._episode = -1  # Episodes since the last seed, counted from 0.
        self._begun = False
        self.text_view = self.make_view()

    # What a kind of game defines.

    def make_view(self) -> TextView:
        """The view for episodes of `self.max_cycles` rounds."""
        raise NotImplementedError

    def drawn_in_text(self) -> str:
        """The last round as lines of plain text, the last one ended."""
        raise NotImplementedError

    def drawn_in_pixels(self) -> np.ndarray:
        """The last round as a uint8 array (height, width, 3)."""
        raise NotImplementedError

    def begin(self, options: Mapping[str, Any]) -> None:
        """Start an episode; what is wrong with the options is refused here."""
        raise NotImplementedError

    def _actions(self) -> spaces.Space[Any]:
        """An agent's action space."""
        raise NotImplementedError

    def _first(self) -> Reset:
        """The first observations and infos of an episode that has begun."""
        raise NotImplementedError

    def _vectors(self) -> Sequence[Row]:
        """The observation vectors of all agents now, also of those that have left."""
        raise NotImplementedError

    # What it may say besides.

    def baselines(self) -> dict[str, float]:
        """Mean reward per agent and step, without noise: 'uniform' play and the joint 'optimum'.

        Empty where they are not known: where they differ from draw to draw, or nobody plays at
        random.
        """
        return {}

    # PettingZoo's interface.

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        """Start an episode; None continues the random stream of the last seed.

        A seed determines the episode: nothing that was played before has an effect on it.
        Options that the game does not know are ignored, as PettingZoo's own tests want. Raises
        EnvConfigError for a wrong seed, options or `max_cycles`; then nothing has changed.
        """
        seed, given = reset_arguments(seed, options)
        rounds = whole_number("max_cycles", self.max_cycles, low=1)
        viewed = self.rounds
        with unchanged_if_refused(self, *self._restored):
            if seed is not None:
                self.np_random = np.random.default_rng(seed)
            self._episode = 0 if seed is not None else self._episode + 1
            self.rounds, self.played = rounds, 0
            self.begin(given)
        if rounds != viewed:
            self.text_view = self.make_view()
        self.agents = list(self.possible_agents)
        self._begun = True
        first = self._first()
        if self.render_mode == "human":
            self.render()
        return first

    def state(self) -> np.ndarray:
        """All agents' observation vectors one after another (float32), for centralised critics."""
        if not self._begun:
            raise EnvError("state() before the first reset(): call reset() first")
        return np.array(self._vectors(), FLOAT).ravel()

    def render(self) -> np.ndarray | str | None:
        """The last round as this environment's render mode wants it; "human" writes to stdout."""
        if self.render_mode is None:
            raise EnvError(
                f"render() needs a render_mode: construct with one of "
                f"{', '.join(self.render_modes)}"
            )
        if not self._begun:
            raise EnvError("render() before the first reset(): call reset() first")
        if self.render_mode == "rgb_array":
            return self.drawn_in_pixels()
        if self.render_mode == "ansi":
            return self.drawn_in_text()
        sys.stdout.write(printable(self.drawn_in_text()))
        return None

    def _space_of(self, vector: spaces.Box) -> spaces.Space[Any]:
        """What an agent observes whose vector is in `vector`, by `obs_mode`."""
        if self.obs_mode == "vector":
            return vector
        parts: dict[str, spaces.Space[Any]] = {"observation": vector}
        if self.obs_mode == "llm":
            parts["text"] = TextSpace(TEXT_LENGTH)
        return spaces.Dict(parts)
