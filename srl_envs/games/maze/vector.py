"""Mazes, on arrays: the rules of srl_envs.games.maze.env."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from srl_envs.games.base import SimultaneousGame
from srl_envs.games.maze.env import (
    ARRIVAL,
    DISTANCE,
    OBSERVATION_FIELDS,
    SHARES,
    STEP,
    TOO_LATE,
    Maze,
)
from srl_envs.games.maze.level import STEPS
from srl_envs.games.maze.vector_levels import Levels, mazes_of
from srl_envs.games.maze.view import VISITS_SHOWN
from srl_envs.vector.array_env import ArrayGame
from srl_envs.vector.rng import Draws

(X, Y, GOAL_X, GOAL_Y, OTHER_X, OTHER_Y, LAST_X, LAST_Y, BLOCKED, ARRIVED, TIME, VISITS) = range(12)
WALLS = OBSERVATION_FIELDS.index("walls")
STEPS_X, STEPS_Y = np.array(STEPS, np.float32).T.copy()
VISITS_AS_SHOWN = np.array(SHARES, np.float32)


class VectorMaze(ArrayGame):
    """The game of the single environment, all tasks, each environment in a maze of its own.

    Cells are numbered in a grid with a border `view_radius` wide, so that what lies around a cell
    is always at the same distance in the array.
    """

    def __init__(self, game: Maze, num_envs: int, autoreset_mode: AutoresetMode | str) -> None:
        super().__init__(game, num_envs, autoreset_mode)
        self._game = game
        self._levels = Levels(game, num_envs)
        width, height, radius = game.width, game.height, game.view_radius
        across, down = width + 2 * radius, height + 2 * radius
        grid = np.arange(across * down).reshape(down, across)
        # Number in the level -> number here.
        self._cell = grid[radius : radius + height, radius : radius + width].ravel()
        self._columns = np.tile(np.arange(across) - radius, down)
        self._rows = np.repeat(np.arange(down) - radius, across)
        self._x = self._columns / max(1, width - 1)
        self._y = self._rows / max(1, height - 1)
        self._steps_to = np.array([dy * across + dx for dx, dy in STEPS])
        near = np.arange(-radius, radius + 1)
        self._window = (near[:, None] * across + near).ravel()
        self._move_rewards = np.array([STEP + DISTANCE * away for away in range(width + height)])
        self._solid = np.ones((num_envs, across * down), np.int8)
        self._visits = np.zeros((*self._shape, across * down), np.uint8)
        # Where each environment's grid begins in `_solid`, and each seat's in `_visits`.
        self._grids = np.arange(num_envs)[:, None] * grid.size + np.zeros(self._shape, np.int64)
        self._counts = np.arange(num_envs * self.num_agents).reshape(self._shape) * grid.size
        self._places = np.zeros(self._shape, np.int64)
        self._goals = np.zeros(self._shape, np.int64)
        self._arrived = np.zeros(self._shape, bool)
        self._fewest = np.zeros(self._shape, np.int64)
        self._made = np.zeros(self._shape, np.int64)  # moves
        self._seeds_of = np.full(num_envs, None, object)
        self._hashes = np.full(num_envs, None, object)
        self._names = np.array([*game.possible_agents, "draw"], object)
        self._ends: np.ndarray | None = None

    def _drawn(self, game: SimultaneousGame) -> Draws | None:
        return None

    def _restart(self, who: Sequence[int], seeds: Sequence[int | None]) -> None:
        self._levels.restart(who, seeds)

    def begin(self, who: np.ndarray, options: Mapping[str, Any]) -> None:
        """Open the mazes; the option "level_seed" names one for all that are reset."""
        game, seed = self._game, options.get("level_seed")
        level = game.fixed_level if seed is None else game.named_level(seed)
        if level is None:
            mazes = self._levels.next(who)
        else:
            mazes = mazes_of([level], game.task, self.num_agents)
        self._solid[who[:, None], self._cell] = mazes.shut
        starts = np.broadcast_to(self._cell[mazes.starts], (len(who), self.num_agents))
        self._places[who] = starts
        self._goals[who] = self._cell[mazes.goals]
        if game.task == "meet":
            self._goals[who] = self._farthest(starts)
        self._arrived[who] = False
        self._fewest[who] = mazes.fewest
        self._made[who] = 0
        self._seeds_of[who], self._hashes[who] = mazes.seeds, mazes.hashes
        self._visits[who] = 0
        self._visits.reshape(-1)[self._counts[who] + starts] = 1
        self._observations[who, :, LAST_X : BLOCKED + 1] = 0.0
        self._look(who)

    def play_round(
        self, chosen: np.ndarray, over: np.ndarray | None, resting: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """One round."""
        before, places, seen = self._arrived, self._places, self._observations
        there = places + self._steps_to.take(chosen)
        blocked = self._solid.take(self._grids + there) > 0
        stays = blocked
        last_x, last_y = STEPS_X.take(chosen), STEPS_Y.take(chosen)
        if self._game.task == "own" and before.any():  # who has arrived waits
            stays = blocked | before
            blocked = blocked & ~before
            last_x[before] = last_y[before] = 0.0
            self._made += ~before
        else:
            self._made += 1
        self._places = places = np.where(stays, places, there)
        visits, counts = self._visits.reshape(-1), self._counts + places
        count = visits.take(counts)
        visits[counts] = count + (~stays & (count < VISITS_SHOWN))
        if self._game.task == "meet":
            self._goals = self._farthest(places)
        self._arrived = now = places == self._goals
        finished = now.any(axis=1) if self._game.task == "race" else now.all(axis=1)
        self._ends = finished if over is None else finished | over
        rewards = self._move_rewards.take(self._away(places, self._goals))
        if self._ends.any():
            rewards[self._ends] = TOO_LATE
        if now.any():
            rewards[now] = np.where(before[now], 0.0, ARRIVAL)
        seen[..., LAST_X], seen[..., LAST_Y], seen[..., BLOCKED] = last_x, last_y, blocked
        self._look(None)
        return rewards, finished

    def of_the_round(self) -> dict[str, Any]:
        """The winner, in the last round of a race of several."""
        if self._game.task != "race" or self.num_agents == 1 or self._ends is None:
            return {}
        if not self._ends.any():
            return {}
        alone = self._arrived.sum(axis=1) == 1
        who = np.where(alone, self._arrived.argmax(axis=1), len(self._names) - 1)
        winners = self.all_seats(self._names.take(who))
        winners[~self._ends] = None
        return {"winner": (winners, self._ends)}

    def standing(self) -> dict[str, np.ndarray]:
        """What is known of the maze, and how far the seats have come."""
        return {
            "shortest_path": self._fewest.copy(),
            "steps": self._made.copy(),
            "success": self._arrived.copy(),
            "level_seed": self.all_seats(self._seeds_of),
            "layout_hash": self.all_seats(self._hashes),
        }

    def masks(self) -> np.ndarray:
        """The moves that no wall blocks, with `mask_walls`; else all, as for a seat that waits."""
        if not self._game.mask_walls:
            return super().masks()
        near = (self._grids + self._places)[..., None] + self._steps_to
        legal = self._solid.take(near) == 0
        legal |= self._arrived[..., None]
        return np.asarray(legal, np.int8)

    # What the seats see.

    def _look(self, who: np.ndarray | None) -> None:
        """Write where the seats of all are, or of those just begun, and what is around them."""
        every = who is None
        seen = self._observations if every else self._observations[who]
        places, goals, grids, counts, arrived = (
            values if every else values[who]
            for values in (self._places, self._goals, self._grids, self._counts, self._arrived)
        )
        x, y = self._x.take(places), self._y.take(places)
        seen[..., X], seen[..., Y] = x, y
        seen[..., GOAL_X] = self._x.take(goals) - x
        seen[..., GOAL_Y] = self._y.take(goals) - y
        if self.num_agents > 1:
            other = self._nearest(places)
            seen[..., OTHER_X] = self._x.take(other) - x
            seen[..., OTHER_Y] = self._y.take(other) - y
        seen[..., ARRIVED] = arrived
        if every:
            self.show_time(seen[..., TIME])
        else:
            seen[..., TIME] = 0.0
        # Cell by cell around a place, not place by place: long rows are looked up soonest.
        by_seat = seen.reshape(-1, seen.shape[-1])
        near = self._steps_to[:, None] + (counts + places).ravel()
        by_seat[:, VISITS:WALLS] = VISITS_AS_SHOWN.take(self._visits.take(near)).T
        around = self._window[:, None] + (grids + places).ravel()
        by_seat[:, WALLS:] = self._solid.take(around).T
        if not every:
            self._observations[who] = seen

    def _away(self, places: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """Manhattan distances, in cells."""
        away = np.abs(self._columns.take(places) - self._columns.take(goals))
        away += np.abs(self._rows.take(places) - self._rows.take(goals))
        return np.asarray(away)

    def _nearest(self, places: np.ndarray) -> np.ndarray:
        """The place of the nearest other seat, the first of several."""
        away = self._apart(places)
        away[:, range(self.num_agents), range(self.num_agents)] = len(self._x)
        return np.take_along_axis(places, away.argmin(axis=2), axis=1)

    def _farthest(self, places: np.ndarray) -> np.ndarray:
        """The place of the farthest other seat, the first of several."""
        away = self._apart(places)
        away[:, range(self.num_agents), range(self.num_agents)] = -1
        return np.take_along_axis(places, away.argmax(axis=2), axis=1)

    def _apart(self, places: np.ndarray) -> np.ndarray:
        """(N, A, A) distances of the seats."""
        return self._away(places[:, :, None], places[:, None, :])
