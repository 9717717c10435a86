"""Scripted maze policies, which read the same observations as other agents."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from srl_agents.episode import Decision
from srl_agents.policy import AgentObservation, PerAgentPolicy
from srl_envs.games.base import VectorLayout
from srl_envs.games.maze import OBSERVATION_FIELDS
from srl_envs.games.maze_levels import STEPS, around

CLOCKWISE = (0, 3, 1, 2)
"""Actions in clockwise order: up, right, down, left."""
WAIT_SHARE = 0.5  # probability of waiting for an adjacent agent that is the goal
WALL = 1


@dataclass
class Walk:
    """Memory of a MazeWalker: its generator, known walls and heading."""

    rng: np.random.Generator
    walls: NDArray[np.int8]
    """1 for each cell that is a known wall."""
    heading: int = 0
    """Index into CLOCKWISE."""


@dataclass(frozen=True)
class Sight:
    """Parsed observation of a maze; cells are numbered row by row."""

    cell: int
    """Cell of the agent."""
    goal: int
    open: tuple[bool, bool, bool, bool]
    """True for each action (up, down, left, right) that leads to a cell without a wall."""
    walls: tuple[int, ...]
    """Cells in view that are walls."""
    arrived: bool


class MazeWalker(PerAgentPolicy):
    """Base class of policies for mazes; sizes are in cells, and a subclass implements `step`."""

    name: str

    def __init__(self, width: int, height: int, view_radius: int) -> None:
        self._width, self._height, self._radius = width, height, view_radius
        across = 2 * view_radius + 1
        sizes = dict.fromkeys(OBSERVATION_FIELDS, 1) | {"walls": across * across}
        self._layout = VectorLayout(sizes)
        self._around = around(width, height)
        centre = view_radius * across + view_radius
        self._beside = tuple(centre + dy * across + dx for dx, dy in STEPS)

    def start(self, seed: int) -> Walk:
        return Walk(np.random.default_rng(seed), np.zeros(self._width * self._height, np.int8))

    def decide(self, seen: AgentObservation, state: Walk) -> Decision:
        sight = self.look(seen)
        return Decision(0 if sight.arrived else self.step(sight, state))

    def step(self, sight: Sight, walk: Walk) -> int:
        """Return 0 (up), 1 (down), 2 (left) or 3 (right); implemented by subclasses.

        Not called at the goal. May change `walk`.
        """
        raise NotImplementedError

    def look(self, seen: AgentObservation) -> Sight:
        """Return the Sight that an agent's observation vector describes."""
        fields = self._layout(seen.observation)
        right, down = max(1, self._width - 1), max(1, self._height - 1)
        x, y = round(fields["x"][0] * right), round(fields["y"][0] * down)
        goal_x = x + round(fields["goal_dx"][0] * right)
        goal_y = y + round(fields["goal_dy"][0] * down)
        shut = fields["walls"] > 0.5
        radius, across = self._radius, 2 * self._radius + 1
        walls = []
        for place in np.flatnonzero(shut).tolist():
            row, column = divmod(place, across)
            cell_x, cell_y = x + column - radius, y + row - radius
            if 0 <= cell_x < self._width and 0 <= cell_y < self._height:
                walls.append(cell_y * self._width + cell_x)
        up, below, left, beyond = (not shut[place] for place in self._beside)
        return Sight(
            cell=y * self._width + x,
            goal=goal_y * self._width + goal_x,
            open=(up, below, left, beyond),
            walls=tuple(walls),
            arrived=fields["arrived"][0] > 0.5,
        )


def _any_open(sight: Sight, rng: np.random.Generator) -> int:
    ways = [action for action in range(4) if sight.open[action]]
    return ways[int(rng.integers(len(ways)))]


class RandomWalker(MazeWalker):
    """Policy that moves to a random adjacent cell without a wall."""

    name = "random_walker"

    def step(self, sight: Sight, walk: Walk) -> int:
        return _any_open(sight, walk.rng)


class GreedyWalker(MazeWalker):
    """Policy that moves closer to its goal if walls allow this, else to a random open cell."""

    name = "greedy_walker"

    def step(self, sight: Sight, walk: Walk) -> int:
        dy, dx = np.subtract(divmod(sight.goal, self._width), divmod(sight.cell, self._width))
        closer = [
            action
            for action, (step_x, step_y) in enumerate(STEPS)
            if sight.open[action] and dx * step_x + dy * step_y > 0
        ]
        if not closer:
            return _any_open(sight, walk.rng)
        return closer[int(walk.rng.integers(len(closer)))]


class WallFollower(MazeWalker):
    """Policy that follows the wall on its right."""

    name = "wall_follower"

    def step(self, sight: Sight, walk: Walk) -> int:
        for turn in (1, 0, 3, 2):
            heading = (walk.heading + turn) % 4
            if sight.open[CLOCKWISE[heading]]:
                walk.heading = heading
                return CLOCKWISE[heading]
        return 0


class Explorer(MazeWalker):
    """Policy that takes a shortest path to its goal through cells that are not known walls.

    Unseen cells count as free (Koenig and Smirnov 1996). With `meets`, the goal is another agent.
    Next to this agent and a wall, the policy waits half of the time, to prevent endless swaps.
    """

    name = "explorer"

    def __init__(self, width: int, height: int, view_radius: int, *, meets: bool = False) -> None:
        super().__init__(width, height, view_radius)
        self._meets = meets

    def step(self, sight: Sight, walk: Walk) -> int:
        walk.walls[list(sight.walls)] = WALL
        away = self._distances(sight.goal, walk.walls.tolist())
        beside = self._around[sight.cell]
        near = [(away[beside[action]], action) for action in range(4) if sight.open[action]]
        if not near:
            return 0
        shortest = min(near)[0]
        if self._meets and shortest == 0 and walk.rng.random() < WAIT_SHARE:
            shut = [action for action in range(4) if not sight.open[action]]
            if shut:
                return shut[0]
        best = [action for distance, action in near if distance == shortest]
        return best[int(walk.rng.integers(len(best)))]

    def _distances(self, goal: int, walls: list[int]) -> list[int]:
        far = len(walls)
        away = [far] * len(walls)
        away[goal] = 0
        reached = [goal]
        for cell in reached:  # The list grows during the loop.
            for there in self._around[cell]:
                if there < far and away[there] == far and not walls[there]:
                    away[there] = away[cell] + 1
                    reached.append(there)
        return away
