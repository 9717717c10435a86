"""What the games with array rules share: rounds counted, noise drawn, infos put together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from srl_envs.games.base import NOISE_LIMIT, SimultaneousGame
from srl_envs.vector.rng import Draws
from srl_envs.vector.vector_env import VectorGame, give_seats


class ArrayGame(VectorGame):
    """A game whose rules are written on arrays.

    `game` is the single environment: it has checked the parameters, and its numbers are used. A
    game defines `begin`, `play_round` and `of_the_round`, and may say more in `standing`.
    """

    def __init__(
        self, game: SimultaneousGame, num_envs: int, autoreset_mode: AutoresetMode | str
    ) -> None:
        seat = game.possible_agents[0]
        super().__init__(
            game.possible_agents,
            game.observation_space(seat),
            game.action_space(seat),
            num_envs,
            autoreset_mode,
            game.metadata,
        )
        self._game = game
        self.rounds = game.rounds
        self._played = np.zeros(self.num_envs, np.int64)
        # Of all, where they are at the same round, and the most: nothing ends by the clock before.
        self._played_by_all: int | None = None
        self._most_played = 0
        self._can_finish = False
        self._draws = self._drawn(game)

    # What a game defines.

    def begin(self, who: np.ndarray, options: Mapping[str, Any]) -> None:
        """Set up the episodes of `who` (indices) and write their first observations."""
        raise NotImplementedError

    def play_round(
        self, chosen: np.ndarray, over: np.ndarray | None, resting: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Rewards (N, A) and which episodes are decided (N,), None for none; writes observations.

        `over` (N,) marks those whose time is up, None where it is nobody's.
        """
        raise NotImplementedError

    def of_the_round(self) -> dict[str, Any]:
        """Infos of the round just played: fresh arrays (N, A, ...), or such and who has them."""
        raise NotImplementedError

    def standing(self) -> dict[str, np.ndarray]:
        """Infos that environments have from their reset on: fresh arrays (N, A, ...)."""
        return {}

    def masks(self) -> np.ndarray:
        """Legal actions now, int8 (N, A, actions), a fresh array."""
        return np.ones((*self._shape, int(self.single_action_space.n)), np.int8)

    def _drawn(self, game: SimultaneousGame) -> Draws | None:
        """The stream of `noise`; None where a game needs none."""
        scale = game.noise_std
        if not scale:
            return None

        return Draws(
            self.num_envs, self.num_agents, _standard_normal, partial(_clipped, scale=scale)
        )

    # What a game may use.

    def noise(self, idle: np.ndarray | None) -> np.ndarray | float:
        """The round's random numbers (N, A); `idle` environments (N,) draw none."""
        return 0.0 if self._draws is None else self._draws.take(idle)

    def show_time(self, column: np.ndarray) -> None:
        """Write rounds played / rounds into a column (N, A) of the observations."""
        if self._played_by_all is not None:
            column[...] = self._played_by_all / self.rounds
        else:
            give_seats(column, self._played / self.rounds)

    # The machinery.

    def _check_options(self, options: Mapping[str, Any]) -> None:
        self._game.reset(seed=0, options=options)

    def _start(
        self, who: np.ndarray, seeds: Sequence[int | None], options: Mapping[str, Any]
    ) -> None:
        self._restart(who.tolist(), seeds)
        self._played[who] = 0
        self._played_by_all = None
        if len(who) == self.num_envs:
            self._played_by_all = self._most_played = 0
        self.begin(who, options)

    def _restart(self, who: Sequence[int], seeds: Sequence[int | None]) -> None:
        if self._draws is not None:
            self._draws.restart(who, seeds)

    def _play(
        self, chosen: np.ndarray, resting: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        if resting is not None:
            self._played[resting] -= 1  # it was the last round, and is not counted on
            self._played_by_all = None
        self._played += 1
        self._most_played += 1
        if self._played_by_all is not None:
            self._played_by_all += 1
        over = None
        if self._most_played >= self.rounds:
            over = self._played >= self.rounds
            self._most_played = int(self._played.max())
        rewards, finished = self.play_round(chosen, over, resting)
        self._can_finish = finished is not None or over is not None
        terminations, truncations = np.zeros(self._shape, bool), np.zeros(self._shape, bool)
        if finished is not None:
            give_seats(terminations, finished)
            if over is not None:
                over = over & ~finished  # decided in the last round: it did not run out of time
        if over is not None:
            give_seats(truncations, over)
        return rewards, terminations, truncations

    def _may_end(self) -> bool:
        return self._can_finish

    def _report(self, fresh: np.ndarray | None) -> dict[str, Any]:
        infos: dict[str, Any] = {}
        if fresh is None or not fresh.all():
            for key, value in self.of_the_round().items():
                self._note(infos, key, value, fresh)
        for key, value in self.standing().items():
            infos[key], infos[f"_{key}"] = value, np.ones(self._shape, bool)
        infos["action_mask"], infos["_action_mask"] = self.masks(), np.ones(self._shape, bool)
        return infos

    def _note(self, infos: dict[str, Any], key: str, value: Any, fresh: np.ndarray | None) -> None:
        has = np.ones(self._shape, bool)
        if isinstance(value, tuple):
            value, marked = value
            give_seats(has, marked if fresh is None else marked & ~fresh)
            if not has.any():
                return
        elif fresh is not None:
            has[fresh] = False
        if isinstance(value, dict):
            within: dict[str, Any] = {}
            for inner, values in value.items():
                self._note(within, inner, values, fresh)
            infos[key] = within
        else:
            if fresh is not None:
                value[fresh] = None if value.dtype == object else 0
            infos[key] = value
        infos[f"_{key}"] = has


def _standard_normal(generator: np.random.Generator, out: np.ndarray) -> None:
    generator.standard_normal(out=out)


def _clipped(block: np.ndarray, scale: float) -> None:
    block.clip(-NOISE_LIMIT, NOISE_LIMIT, out=block)
    np.multiply(block, scale, out=block)


def counted(chosen: np.ndarray) -> np.ndarray:
    """How many seats of each environment chose action 1: (N,) of (N, A)."""
    seats = chosen.shape[1]
    if seats > 8:
        many: np.ndarray = chosen.sum(axis=1)
        return many
    total = chosen[:, 0].copy()
    for seat in range(1, seats):  # many times faster than a sum over so short an axis
        total += chosen[:, seat]
    return total
