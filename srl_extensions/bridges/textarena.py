"""TextArena's games as environments: `make("textarena:IteratedPrisonersDilemma-v0")`.

In every step, the answer of the player to move counts, and all other answers are ignored.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from srl_envs import loading
from srl_envs.errors import EnvConfigError, UntrustedError
from srl_envs.games.base import metadata_of
from srl_envs.tasks.free_text_game import RENDER_MODES, FreeTextGame, FreeTextView, Outcome
from srl_envs.text import TEXT_LENGTH, TO_MOVE, Samples
from srl_envs.validation import whole_number

try:
    import textarena
except ImportError as error:
    raise ImportError(
        'games of TextArena require the package textarena: pip install "core-srl[textarena]"'
    ) from error

# Its `__getattr__` recurses in an object without attributes, which pickle creates.
textarena.core.Wrapper.__setstate__ = lambda self, state: self.__dict__.update(state)
SCHEME = "textarena:"
PLAYERS = (2, 1, 3, 4, 5, 6)
"""Numbers of players that are tried, in this order."""
IN_BRACKETS = re.compile(r"\[[^\[\]\n]{1,40}\]")
"""Form of TextArena's answers, such as [Cooperate]."""
WAITING = "It is not your turn: what you write is ignored."


class TextArenaGame(FreeTextGame):
    """Game of TextArena as a PettingZoo ParallelEnv with texts as actions.

    All agents act in every step, but only the answer of the agent to move counts;
    `infos[agent]["to_move"]` is False for the others. The text for the agent to move is the part of
    TextArena's observation that this agent has not seen before; the first one contains the rules.
    Rewards are TextArena's in the last step of the game, and 0 in all other steps. The observation
    vector is (steps so far / `max_cycles`, 1 for the agent to move and 0 for others).

    TextArena draws from the global generators of `random` and NumPy, restored after each call.

    Args:
        game: TextArena's id of the game, such as "KuhnPoker-v0". It may start with "textarena:".
        num_players: Number of players; by default, the first of 2, 1, 3, 4, 5, 6 that is accepted.
        max_cycles: Number of steps after which an episode is truncated.
        settings: Keyword arguments of TextArena's environment, such as {"max_rounds": 3}.
        obs_mode, render_mode: As in FreeTextGame.

    Raises:
        EnvConfigError: The game is unknown or cannot be started, or an argument is invalid.
        UntrustedError: A record that is not trusted names `settings`.
    """

    def __init__(
        self,
        game: str,
        *,
        num_players: int | None = None,
        max_cycles: int = 200,
        settings: Mapping[str, Any] | None = None,
        obs_mode: str = "llm",
        render_mode: str | None = None,
    ) -> None:
        game = game.removeprefix(SCHEME)
        if loading.is_closed() and settings:
            raise UntrustedError(
                f"settings of {game!r:.200} are named by a record, and may be files: "
                f"{loading.WAY_OUT}"
            )
        try:
            self._make = partial(textarena.make, game, **(settings or {}))
            self.game = self._make()
        except Exception as error:  # TextArena raises errors of all kinds.
            raise EnvConfigError(f"TextArena cannot make the game {game!r}: {error}") from error
        self.metadata = metadata_of(f"textarena_{game}", render_modes=RENDER_MODES)  # type: ignore[misc]  # differs by game
        self._generators = _generator_states(0)
        self._count = self._players(game, num_players)
        self._mover = 0
        self._texts: dict[int, str] = {}
        self._transcripts: dict[int, str] = {}
        self._over = False
        super().__init__(
            [f"player_{player}" for player in range(self._count)],
            low=(0.0, 0.0),
            high=(1.0, 1.0),
            max_cycles=max_cycles,
            obs_mode=obs_mode,
            render_mode=render_mode,
        )

    def make_view(self) -> FreeTextView:
        rules = {
            agent: f"You are player {player} of a game. Answer as its rules say."
            for player, agent in enumerate(self.possible_agents)
        }
        return FreeTextView(rules)

    def begin(self, options: Mapping[str, Any]) -> None:
        seed = int(self.np_random.integers(2**31))
        self._generators = _generator_states(seed)
        self._transcripts = {}
        self._over = False
        with self._own_generators():
            self.game = self._make()  # TextArena's wrappers keep the texts of earlier episodes.
            self.game.reset(num_players=self._count, seed=seed)
            self._observe()

    def first_info(self, agent: str) -> dict[str, Any]:
        return {TO_MOVE: agent == self.possible_agents[self._mover]}

    def take(self, answers: Mapping[str, str], over: bool) -> dict[str, Outcome]:
        with self._own_generators():
            self._over, _ = self.game.step(action=answers[self.possible_agents[self._mover]])
            if not self._over:
                self._observe()
        rewards = (self.game.close()[0] or {}) if self._over else {}
        return {
            agent: Outcome(
                float(rewards.get(player, 0.0)),
                self._over,
                {TO_MOVE: not self._over and player == self._mover},
            )
            for player, agent in enumerate(self.possible_agents)
        }

    def prompt(self, agent: str) -> str:
        if self._over:
            return "The game is over."
        player = self.possible_agents.index(agent)
        return self._texts[player] if player == self._mover else WAITING

    def numbers(self, agent: str) -> tuple[float, float]:
        to_move = not self._over and agent == self.possible_agents[self._mover]
        return min(self.played / self.rounds, 1.0), float(to_move)

    def sample_answers(self, agent: str, rng: np.random.Generator, count: int) -> Samples:
        """Return up to `count` random texts in brackets that agents have seen; None if none."""
        found = list(dict.fromkeys(IN_BRACKETS.findall("\n".join(self._transcripts.values()))))
        return tuple(rng.permutation(found)[:count].tolist()) or None

    def _observe(self) -> None:
        self._mover, observation = self.game.get_observation()
        if not isinstance(observation, str):  # A list of (player, message, kind).
            observation = "\n".join(message for _, message, _ in observation)
        before = self._transcripts.get(self._mover, "")
        self._transcripts[self._mover] = observation
        self._texts[self._mover] = observation.removeprefix(before).strip()[-TEXT_LENGTH:]

    def _players(self, game: str, given: int | None) -> int:
        numbers = PLAYERS if given is None else (whole_number("num_players", given, 1, 100),)
        for number in numbers:
            try:
                with self._own_generators():
                    self.game.reset(num_players=number, seed=0)
            except (ArithmeticError, AssertionError, LookupError, TypeError, ValueError) as error:
                failure = error
            else:
                return number
        raise EnvConfigError(
            f"TextArena cannot start the game {game!r} with {' or '.join(map(str, numbers))} "
            f"players: {failure}"
        ) from failure

    @contextmanager
    def _own_generators(self) -> Iterator[None]:
        others = random.getstate(), np.random.get_state()
        random.setstate(self._generators[0])
        np.random.set_state(self._generators[1])
        try:
            yield
        finally:
            self._generators = random.getstate(), np.random.get_state()
            random.setstate(others[0])
            np.random.set_state(others[1])


def _generator_states(seed: int) -> tuple[Any, Any]:
    return random.Random(seed).getstate(), np.random.RandomState(seed).get_state()


parallel_env = TextArenaGame
