"""Mazes on arrays, by the rules of srl_envs.games.maze.env."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium.vector import AutoresetMode

from srl_envs.games.maze.env import (
    ARRIVAL,
    DISTANCE,
    OBSERVATION_FIELDS,
    SHARES,
    STEP,
    TOO_LATE,
    Maze,
    seating,
)
from srl_envs.games.maze.level import STEPS, Level
from srl_envs.games.maze.view import VISITS_SHOWN
from srl_envs.vector.array_env import ArrayGame, Played
from srl_envs.vector.vector_env import sum_over_agents

(X, Y, GOAL_X, GOAL_Y, OTHER_X, OTHER_Y, LAST_X, LAST_Y, BLOCKED, ARRIVED, TIME, VISITS) = range(12)
WALLS = OBSERVATION_FIELDS.index("walls")
STEPS_X, STEPS_Y = np.array(STEPS, np.float32).T.copy()
VISITS_AS_SHOWN = np.array(SHARES, np.float32)


class Boards(NamedTuple):
    """M levels of C cells, and where their A agents start and go, as numbers of cells."""

    shut: np.ndarray
    """bool (M, C)"""
    starts: np.ndarray
    """(M, A)"""
    goals: np.ndarray
    """(M, A)"""
    fewest: np.ndarray
    """Rounds that each agent needs at least, (M, A)."""
    seeds: np.ndarray
    """Level seeds or None, objects (M,)"""
    hashes: np.ndarray
    """Layout hashes, objects (M,)"""


def boards_of(levels: Sequence[Level], task: str, num_agents: int) -> Boards:
    """The tables of these levels."""
    seated = [seating(level, task, num_agents) for level in levels]
    starts, goals, fewest = (np.array(part) for part in zip(*seated, strict=True))
    shut = np.array([[not ways for ways in level.doors] for level in levels])
    seeds = np.array([level.seed for level in levels], object)
    hashes = np.array([level.layout_hash for level in levels], object)
    return Boards(shut, starts, goals, fewest, seeds, hashes)


class VectorMaze(ArrayGame):
    """The game of the single environment, all tasks, each environment in a maze of its own.

    Where episodes repeat a few levels, their tables are made once; others are made as they are
    drawn, by the single environment's own generator, which takes far longer than to play in them.

    Cells are numbered in a grid with a border `view_radius` wide, so that what lies around a cell
    is always at the same distance in the array.
    """

    def __init__(self, game: Maze, num_envs: int, autoreset_mode: AutoresetMode | str) -> None:
        super().__init__(game, num_envs, autoreset_mode)
        self._game = game
        self._boards = None
        if game.levels:
            self._boards = boards_of(game.levels, game.task, self.num_agents)
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
        # Where each environment's grid begins in `_solid`, and each agent's in `_visits`.
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
        self._ends = np.zeros(num_envs, bool)

    def begin(self, env_ids: np.ndarray, options: Mapping[str, Any]) -> None:
        """Open the mazes; the option "level_seed" names one for all that are reset."""
        boards = self._drawn(env_ids, options.get("level_seed"))
        self._solid[env_ids[:, None], self._cell] = boards.shut
        starts = np.broadcast_to(self._cell[boards.starts], (len(env_ids), self.num_agents))
        self._places[env_ids] = starts
        self._goals[env_ids] = self._cell[boards.goals]
        if self._game.task == "meet":
            self._goals[env_ids] = self._farthest(starts)
        self._arrived[env_ids] = False
        self._fewest[env_ids] = boards.fewest
        self._made[env_ids] = 0
        self._seeds_of[env_ids], self._hashes[env_ids] = boards.seeds, boards.hashes
        self._visits[env_ids] = 0
        self._visits.reshape(-1)[self._counts[env_ids] + starts] = 1
        self._observations[env_ids, :, LAST_X : BLOCKED + 1] = 0.0
        self._look(env_ids)

    def _drawn(self, env_ids: np.ndarray, level_seed: Any) -> Boards:
        """The mazes of the next episodes, one for each of these environments or one for all."""
        game, sources = self._game, self.rng.sources
        if level_seed is not None:
            return boards_of([game.named_level(level_seed)], game.task, self.num_agents)
        if self._boards is not None:
            drawn = [game.draw_number(sources[i].np_random) for i in env_ids.tolist()]
            return Boards(*(table[drawn] for table in self._boards))
        levels = [game.draw_level(sources[i].np_random) for i in env_ids.tolist()]
        return boards_of(levels, game.task, self.num_agents)

    def play_round(self, chosen: np.ndarray, over: np.ndarray, resting: np.ndarray) -> Played:
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
        arrived = sum_over_agents(now.astype(np.int64))
        finished = arrived >= (1 if self._game.task == "race" else self.num_agents)
        self._ends = finished | over
        rewards = self._move_rewards.take(self._away(places, self._goals))
        if self._ends.any():
            rewards[self._ends] = TOO_LATE
        if now.any():
            rewards[now] = np.where(before[now], 0.0, ARRIVAL)
        seen[..., LAST_X], seen[..., LAST_Y], seen[..., BLOCKED] = last_x, last_y, blocked
        self._look(None)
        return rewards, finished

    def round_infos(self) -> dict[str, Any]:
        """The maze, how far the agents have come and, after a race of several, the winner."""
        infos: dict[str, Any] = {
            "shortest_path": self._fewest.copy(),
            "steps": self._made.copy(),
            "success": self._arrived.copy(),
            "level_seed": self.per_agent(self._seeds_of),
            "layout_hash": self.per_agent(self._hashes),
        }
        if self._game.task != "race" or self.num_agents == 1 or not self._ends.any():
            return infos
        alone = self._arrived.sum(axis=1) == 1
        first = np.where(alone, self._arrived.argmax(axis=1), len(self._names) - 1)
        winners = self._names.take(first)
        winners[~self._ends] = None
        infos["winner"] = (self.per_agent(winners), self._ends)
        return infos

    def masks(self) -> np.ndarray:
        """The moves that no wall blocks, with `mask_walls`; else all, also for agents that wait."""
        if not self._game.mask_walls:
            return super().masks()
        near = (self._grids + self._places)[..., None] + self._steps_to
        legal = self._solid.take(near) == 0
        legal |= self._arrived[..., None]
        return np.asarray(legal, np.int8)

    # What the agents see.

    def _look(self, env_ids: np.ndarray | None) -> None:
        """Write where the agents of all are, or of those just begun, and what is around them."""
        every = env_ids is None
        seen = self._observations if every else self._observations[env_ids]
        places, goals, grids, counts, arrived = (
            values if every else values[env_ids]
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
        by_agent = seen.reshape(-1, seen.shape[-1])
        near = self._steps_to[:, None] + (counts + places).ravel()
        by_agent[:, VISITS:WALLS] = VISITS_AS_SHOWN.take(self._visits.take(near)).T
        around = self._window[:, None] + (grids + places).ravel()
        by_agent[:, WALLS:] = self._solid.take(around).T
        if not every:
            self._observations[env_ids] = seen

    def _away(self, places: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """Manhattan distances, in cells."""
        away = np.abs(self._columns.take(places) - self._columns.take(goals))
        away += np.abs(self._rows.take(places) - self._rows.take(goals))
        return np.asarray(away)

    def _nearest(self, places: np.ndarray) -> np.ndarray:
        """The place of the nearest other agent, the first of several."""
        away = self._apart(places)
        away[:, range(self.num_agents), range(self.num_agents)] = len(self._x)
        return np.take_along_axis(places, away.argmin(axis=2), axis=1)

    def _farthest(self, places: np.ndarray) -> np.ndarray:
        """The place of the farthest other agent, the first of several."""
        away = self._apart(places)
        away[:, range(self.num_agents), range(self.num_agents)] = -1
        return np.take_along_axis(places, away.argmax(axis=2), axis=1)

    def _apart(self, places: np.ndarray) -> np.ndarray:
        """(N, A, A) distances of the agents."""
        return self._away(places[:, :, None], places[:, None, :])
