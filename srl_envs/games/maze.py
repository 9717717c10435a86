"""Maze: one agent finds its way, or several race, meet, or seek a goal each.

An agent moves up, down, left or right; walls and the border stop it, other agents do not. Rewards:

- A move earns -0.1 - 0.01 * d, where d is the Manhattan distance to the agent's goal.
- Reaching the goal earns +10.
- Without the goal, the last round earns -1: after `max_cycles` rounds, or when a race is lost.

The `task` defines the goal:

- "race": the same cell for all; the first agent that reaches it ends the episode.
- "own": one cell per agent. An agent that has arrived waits, earning 0, until all have arrived.
- "meet": the cell of the farthest other agent, so that all must come into any one cell.

An episode whose task is done is terminated, any other is truncated; all numbers are unitless.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from operator import eq
from typing import Any, ClassVar

import numpy as np

from srl_envs.errors import EnvConfigError
from srl_envs.games import base
from srl_envs.games.base import vector_of
from srl_envs.games.maze_levels import (
    ANSWERS,
    LAYOUTS,
    SPLITS,
    STEPS,
    Level,
    MazeRecipe,
    board_of,
    first_levels,
)
from srl_envs.games.rendering import COLOURS, INK, LINE, MARGIN, Colour, Frame, width_of
from srl_envs.text import FixedChoices
from srl_envs.validation import (
    MOST_PLAYERS,
    check_choice,
    parallel_form,
    true_or_false,
    whole_number,
)

OBSERVATION_FIELDS = (
    "x",  # own column, from 0 (left) to 1 (right)
    "y",  # own row, from 0 (top) to 1 (bottom)
    "goal_dx",  # the goal's column less one's own, on that scale; in "meet" the farthest agent's
    "goal_dy",
    "other_dx",  # the same for the nearest other agent; 0 where alone
    "other_dy",
    "last_dx",  # the direction last chosen: -1, 0 or 1
    "last_dy",
    "blocked",  # 1 if a wall was in the way of the last move, else 0
    "arrived",  # 1 for an agent that reached its goal: its actions no longer count
    "time",  # rounds played / max_cycles
    "visits_up",  # how often this agent came into the cell above, / VISITS_SHOWN; 0 for walls
    "visits_down",
    "visits_left",
    "visits_right",
    "walls",  # the cells around, view_radius far, row by row: 1 for a wall or the outside, else 0
)
VISITS_SHOWN = 9  # no more are counted
FARTHEST_VIEW = 40  # view_radius at most: a map that wide still fits into an observation's text


@dataclass(frozen=True)
class MazeView(FixedChoices):
    """Text view of a maze."""

    choices: ClassVar[tuple[str, ...]] = ANSWERS

    width: int
    height: int
    view_radius: int
    task: str
    players: int
    rounds: int
    default_action: int = 0
    parse_penalty: float = 0.1

    def rules(self, agent: str) -> str:
        if self.task == "meet":
            all_of_you = "Both players" if self.players == 2 else f"All {self.players} players"
            aim = f"{all_of_you} must come together in one cell, wherever it is"
        elif self.task == "own":
            aim = "Reach your goal in as few moves as you can"
        elif self.players > 1:
            aim = f"Reach the goal before the others, {self.players} players in all"
        else:
            aim = "Reach the goal in as few moves as you can"
        return (
            f"You are {agent} in a maze of {self.width} by {self.height} cells. {aim}. Each round "
            "you move one cell; walls stop you. You are told which ways are open and how often you "
            "have been there: new ways are often better. "
            "Write your move alone on the last line: up, down, left or right."
        )

    def describe(self, agent: str, observation: Any) -> str:
        seen = vector_of(observation).tolist()
        _, _, goal_dx, goal_dy, other_dx, other_dy, dx, dy, blocked, arrived, time = seen[:11]
        visits, walls = seen[11:15], seen[15:]
        played = round(time * self.rounds)
        parts = [f"Step {min(played + 1, self.rounds)} of {self.rounds}."]
        if dx or dy:
            way = ANSWERS[(dx > 0) + 2 if dx else int(dy > 0)]
            parts.append(f"A wall stopped you going {way}." if blocked else f"You went {way}.")
        if self.task == "meet":
            parts.append(f"Open: {self._open(visits, walls)}.")
            parts.append(f"{self._other('Farthest')}: {self._where(goal_dx, goal_dy)}.")
        elif arrived:
            parts.append("You are at the goal; your moves no longer count.")
        else:
            parts.append(f"Open: {self._open(visits, walls)}.")
            parts.append(f"Goal: {self._where(goal_dx, goal_dy)}.")
        if self.players > (2 if self.task == "meet" else 1):
            parts.append(f"{self._other('Nearest')}: {self._where(other_dx, other_dy)}.")
        said = " ".join(parts)
        if self.view_radius > 1:
            across = 2 * self.view_radius + 1
            marks = ["#" if wall else "." for wall in walls]
            marks[len(marks) // 2] = "A"
            rows = [" ".join(marks[at : at + across]) for at in range(0, len(marks), across)]
            said += "\n".join(["\nAround you (A you, # wall, . free):", *rows])
        return said

    def _open(self, visits: Sequence[float], walls: Sequence[float]) -> str:
        across = 2 * self.view_radius + 1
        here = len(walls) // 2
        around = (here - across, here + across, here - 1, here + 1)
        return ", ".join(
            f"{way} ({f'been {round(share * VISITS_SHOWN)}' if share else 'new'})"
            for way, share, cell in zip(ANSWERS, visits, around, strict=True)
            if not walls[cell]
        )

    def _other(self, which: str) -> str:
        return f"{which} player" if self.players > 2 else "Other player"

    def _where(self, dx: float, dy: float) -> str:
        right, down = round(dx * (self.width - 1)), round(dy * (self.height - 1))
        parts = []
        if right:
            parts.append(f"{abs(right)} {'right' if right > 0 else 'left'}")
        if down:
            parts.append(f"{abs(down)} {'down' if down > 0 else 'up'}")
        return ", ".join(parts) or "here"


ARRIVAL, TOO_LATE = 10.0, -1.0
STEP, DISTANCE = -0.1, -0.01  # per move, and per cell of Manhattan distance to the goal
TASKS = ("race", "own", "meet")
MAX_CYCLES = 64  # documented; mazes of other sizes get at least one round for each of their cells

WENT = tuple((float(dx), float(dy), 0.0) for dx, dy in STEPS)
BLOCKED = tuple((float(dx), float(dy), 1.0) for dx, dy in STEPS)
STAYED = (0.0, 0.0, 0.0)
SHARES = tuple(visits / VISITS_SHOWN for visits in range(VISITS_SHOWN + 1))


class Maze(base.SimultaneousGame):
    """The environment.

    Agents agent_0, agent_1, ...; actions 0 up, 1 down, 2 left, 3 right. All are legal, also those
    that a wall blocks, but with `mask_walls` the masks leave those out. Observations:
    OBSERVATION_FIELDS, per agent; the last, `walls`, has (2 * view_radius + 1)^2 numbers.
    Infos of a step: `shortest_path` (the fewest rounds from this agent's start to its goal; in
    "meet", until all can be in one cell), `steps` (moves this agent made), `success`, `level_seed`
    (None for a layout) and `layout_hash`; in the last round of a race of several also `winner`: an
    agent, or "draw". There are no `baselines`: arriving ends the episode, so compare `steps` with
    `shortest_path` instead of means per step.

    `layout` is "simple", "medium", "complex", a Level, or the lines that draw one (see
    Level.drawn). Without it mazes are generated by a MazeRecipe of `width`, `height` and
    `loop_share`. Every episode has a new maze of the `split` ("train" by default, "test" or "any"),
    with `num_levels` one of the first so many in the split, or with `level_seed` always that maze.
    `reset(options={"level_seed": k})` names the maze of that episode.
    """

    metadata: ClassVar[dict[str, Any]] = base.metadata_of("maze_v0", fps=4)

    level: Level
    """Maze of this episode."""
    levels: tuple[Level, ...]
    """Mazes from which episodes draw; empty if each has a new one."""

    def __init__(
        self,
        *,
        layout: str | Level | Sequence[str] | None = None,
        width: int | None = None,
        height: int | None = None,
        loop_share: float | None = None,
        level_seed: int | None = None,
        num_levels: int | None = None,
        split: str | None = None,
        num_agents: int = 1,
        task: str = "race",
        view_radius: int = 1,
        mask_walls: bool = False,
        max_cycles: int | None = None,
        obs_mode: str = "vector",
        render_mode: str | None = None,
    ) -> None:
        sizes = {"width": width, "height": height, "loop_share": loop_share}
        recipe: dict[str, Any] = {name: size for name, size in sizes.items() if size is not None}
        chosen = {"level_seed": level_seed, "num_levels": num_levels, "split": split}
        for name, value in {**recipe, **chosen}.items():
            if layout is not None and value is not None:
                raise EnvConfigError(
                    f"{name} is for generated mazes, got {value!r}: leave it or the layout out"
                )
        if level_seed is not None and num_levels is not None:
            raise EnvConfigError(
                f"level_seed names one maze, got {level_seed!r}, and num_levels asks for "
                f"{num_levels!r}: leave one of them out"
            )
        agents = whole_number("num_agents", num_agents, 1, MOST_PLAYERS)
        self.task: str = check_choice("task", task, TASKS)
        if self.task == "meet" and agents < 2:
            raise EnvConfigError(f"num_agents must be at least 2 to meet, got {agents}")
        self.view_radius = whole_number("view_radius", view_radius, low=1, high=FARTHEST_VIEW)
        self.mask_walls = true_or_false("mask_walls", mask_walls)
        self.split: str = check_choice(
            "split", "train" if split is None else split, (*SPLITS, "any")
        )
        self.recipe = MazeRecipe(**recipe)
        self._is_drawn = layout is not None
        self.levels = ()
        if isinstance(layout, str):
            self.levels = (LAYOUTS[check_choice("layout", layout, LAYOUTS)],)
        elif layout is not None:
            self.levels = (layout if isinstance(layout, Level) else Level.drawn(layout),)
        elif level_seed is not None:
            self.levels = (self.named_level(level_seed),)
        elif num_levels is not None:
            count = whole_number("num_levels", num_levels, low=1)
            self.levels = first_levels(self.recipe, self.split, count)
        if len(self.levels) == 1:
            seating(self.levels[0], self.task, agents)  # raises for a maze that is too small
        elif self.task != "race" and agents > self.recipe.least_cells:
            raise EnvConfigError(
                f"num_agents must be at most {self.recipe.least_cells} with task={self.task!r}, "
                f"the cells of the smallest {self.recipe.width}x{self.recipe.height} maze, got "
                f"{agents}: use larger mazes"
            )
        size = self.levels[0] if self.levels else self.recipe
        self.width, self.height = size.width, size.height
        if max_cycles is None:
            rounds = 0 if isinstance(layout, str) else self.width * self.height
            max_cycles = max(MAX_CYCLES, rounds)
        walls = (2 * self.view_radius + 1) ** 2
        super().__init__(
            [f"agent_{index}" for index in range(agents)],
            ANSWERS,
            low=(0.0, 0.0, *(-1.0,) * 6, *(0.0,) * (7 + walls)),
            high=(1.0,) * (15 + walls),
            reward_ceiling=ARRIVAL,
            max_cycles=max_cycles,
            obs_mode=obs_mode,
            render_mode=render_mode,
        )

    def make_view(self) -> MazeView:
        agents, rounds = len(self.possible_agents), self.max_cycles
        return MazeView(self.width, self.height, self.view_radius, self.task, agents, rounds)

    def first_rows(self, options: Mapping[str, Any]) -> Sequence[base.Row]:
        """The agents' first observations; the option "level_seed" names this episode's maze."""
        agents = len(self.possible_agents)
        seed = options.get("level_seed")
        if seed is not None:
            self.level = self.named_level(seed)
        else:
            self.level = self.draw_level(self.np_random)
        self._board = board_of(self.level, self.view_radius)
        starts, goals, self._fewest = seating(self.level, self.task, agents)
        self._places = list(starts)
        self._goals = self._farthest() if self.task == "meet" else list(goals)
        self._arrived = [False] * agents
        # One count more than cells: the last is for cells behind walls, which no agent visits.
        self._visits = [[0] * (len(self._board.doors) + 1) for _ in starts]
        for visits, place in zip(self._visits, starts, strict=True):
            visits[place] = 1
        self._trails = [[place] for place in starts]
        return [self._row(agent, STAYED, 0.0) for agent in range(agents)]

    def _infos(self) -> list[dict[str, Any]]:
        level, fewest, trails = self.level, self._fewest, self._trails
        return [
            {
                "shortest_path": fewest[agent],
                "steps": len(trails[agent]) - 1,
                "success": arrived,
                "level_seed": level.seed,
                "layout_hash": level.layout_hash,
            }
            for agent, arrived in enumerate(self._arrived)
        ]

    def play_round(self, chosen: Sequence[int], over: bool) -> base.Played:
        ways = [self._move(agent, action) for agent, action in enumerate(chosen)]
        if self.task == "meet":
            self._goals = self._farthest()
        before = self._arrived
        now = list(map(eq, self._places, self._goals))
        self._arrived = now
        self.finished = True in now if self.task == "race" else False not in now
        ends = over or self.finished
        rewards = []
        for agent, arrived in enumerate(now):
            if arrived:
                rewards.append(0.0 if before[agent] else ARRIVAL)
            elif ends:
                rewards.append(TOO_LATE)
            else:
                away = self._board.distance(self._places[agent], self._goals[agent])
                rewards.append(STEP + DISTANCE * away)
        time = self.played / self.rounds
        rows = [self._row(agent, way, time) for agent, way in enumerate(ways)]
        infos = self._infos()
        if ends and self.task == "race" and len(now) > 1:
            winner = self.possible_agents[now.index(True)] if now.count(True) == 1 else "draw"
            for info in infos:
                info["winner"] = winner
        return rows, rewards, infos

    def masks(self) -> Sequence[np.ndarray] | np.ndarray:
        every = self._every_action
        if not self.mask_walls:
            return every
        return [
            whole if arrived else self._board.open_ways(place)
            for whole, arrived, place in zip(every, self._arrived, self._places, strict=True)
        ]

    def drawn_in_text(self) -> str:
        goals = () if self.task == "meet" else self._goals
        return ansi(self.headline(), self.level, self._trails, goals)

    def drawn_in_pixels(self) -> np.ndarray:
        # As long as that of the last round, so that all frames of an episode are as wide.
        headline = self.headline() + " " * (len(str(self.rounds)) - len(str(self.played)))
        goals = () if self.task == "meet" else self._goals
        return rgb_array(headline, self.level, self._trails, goals)

    def draw_level(self, generator: np.random.Generator) -> Level:
        """The maze of the next episode, drawn with `generator`."""
        if self.levels:
            return self.levels[self.draw_number(generator)]
        return self.recipe.sample(generator, self.split)

    def draw_number(self, generator: np.random.Generator) -> int:
        """The index in `levels` of the next episode's maze, drawn with `generator`."""
        return int(generator.integers(len(self.levels))) if len(self.levels) > 1 else 0

    def named_level(self, seed: Any) -> Level:
        """The maze of a level seed; raises EnvConfigError where it may not be played here."""
        if self._is_drawn:
            raise EnvConfigError(f"level_seed is for generated mazes, got {seed!r} and a layout")
        level = self.recipe.level(seed)
        if self.split not in ("any", level.split):
            raise EnvConfigError(
                f"level_seed {seed} makes a maze of the {level.split} split and this environment "
                f"plays the {self.split} split: see MazeRecipe.level_seeds, or give split='any'"
            )
        return level

    def _move(self, agent: int, action: int) -> tuple[float, float, float]:
        """Move one agent; return its direction, and 1 if a wall was in the way."""
        if self._arrived[agent]:
            return STAYED
        place, trail = self._places[agent], self._trails[agent]
        there = self._board.doors[place][action]
        if there < 0:
            trail.append(place)
            return BLOCKED[action]
        self._places[agent] = there
        trail.append(there)
        visits = self._visits[agent]
        if visits[there] < VISITS_SHOWN:
            visits[there] += 1
        return WENT[action]

    def _row(self, agent: int, way: tuple[float, float, float], time: float) -> base.Row:
        board, place, goal = self._board, self._places[agent], self._goals[agent]
        x, y = board.x[place], board.y[place]
        other = place
        if len(self._places) > 1:
            other = min(self._others(agent), key=partial(board.distance, place))
        visits = self._visits[agent]
        up, down, left, right = board.doors[place]  # a wall's door is -1: the count behind walls
        return (
            x,
            y,
            board.x[goal] - x,
            board.y[goal] - y,
            board.x[other] - x,
            board.y[other] - y,
            *way,
            float(self._arrived[agent]),
            time,
            SHARES[visits[up]],
            SHARES[visits[down]],
            SHARES[visits[left]],
            SHARES[visits[right]],
            *board.view(place),
        )

    def _farthest(self) -> list[int]:
        """Return the place of the farthest other agent, per agent; the first of several."""
        return [
            max(self._others(agent), key=partial(self._board.distance, place))
            for agent, place in enumerate(self._places)
        ]

    def _others(self, agent: int) -> list[int]:
        return self._places[:agent] + self._places[agent + 1 :]


@lru_cache(maxsize=256)
def seating(
    level: Level, task: str, agents: int
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Each agent's start, its goal, and the fewest rounds from one to the other.

    In "meet" the goals, which move, are left at the starts.
    """
    if task == "race":
        start, goal = level.stations(2)
        return (start,) * agents, (goal,) * agents, (level.shortest_path,) * agents
    places = level.stations(max(agents, 2))
    starts = places[:agents]
    if task == "own":
        goals = tuple(places[(agent + 1) % len(places)] for agent in range(agents))
        ways = zip(starts, goals, strict=True)
        return starts, goals, tuple(level.distances(start)[goal] for start, goal in ways)
    # Who is nearer may wait, so a cell is reached by all once the farthest is there.
    far = zip(*map(level.distances, starts), strict=True)
    soonest = min(max(lengths) for lengths in far if min(lengths) >= 0)
    return starts, starts, (soonest,) * agents


parallel_env = parallel_form(Maze)


LETTERS = "ABCDEFHIJKLMNOPQRSTUVWXYZ"  # G is for goals
CROWD = "*"  # agents beyond the letters


def ansi(headline: str, level: Level, trails: Sequence[Sequence[int]], goals: Sequence[int]) -> str:
    """Return the headline and a line per row: A, B, ... agents, G goals, # walls, . free."""
    marks = ["#" if not ways else "." for ways in level.doors]
    for goal in goals:
        marks[goal] = "G"
    for agent, trail in reversed(list(enumerate(trails))):
        marks[trail[-1]] = LETTERS[agent] if agent < len(LETTERS) else CROWD
    rows = range(0, len(marks), level.width)
    return "\n".join([headline, *("".join(marks[r : r + level.width]) for r in rows), ""])


_WALL, _FREE = (60, 60, 66), (226, 226, 222)
_LARGEST, _SMALLEST = 24, 6  # pixels per cell
_FRAME = 480  # pixels: a maze is drawn with the largest cells that keep it within, if any do


def rgb_array(
    headline: str, level: Level, trails: Sequence[Sequence[int]], goals: Sequence[int]
) -> np.ndarray:
    """Return the picture as a uint8 array (height, width, 3).

    Goals are hollow squares, black if several agents share one. Each agent is a filled square at
    the end of a line from its start.
    """
    cell = max(_SMALLEST, min(_LARGEST, _FRAME // max(level.width, level.height)))
    height = 2 * MARGIN + LINE + level.height * cell
    frame = Frame(height, 2 * MARGIN + max(level.width * cell, width_of(headline)))

    def square(place: int, inset: int, colour: Colour) -> None:
        row, column = divmod(place, level.width)
        top, left = MARGIN + LINE + row * cell + inset, MARGIN + column * cell + inset
        frame.box(top, left, cell + 1 - 2 * inset, cell + 1 - 2 * inset, colour)

    frame.write(headline, MARGIN, MARGIN)
    for place, ways in enumerate(level.doors):
        square(place, 1, _FREE if ways else _WALL)
    for agent, goal in enumerate(goals):
        square(goal, cell // 8 + 1, INK if goals.count(goal) > 1 else COLOURS[agent % len(COLOURS)])
        square(goal, cell // 4 + 1, _FREE)
    thick = max(1, cell // 12)
    for agent, trail in enumerate(trails):
        # Agents have lanes within a cell, so that none hides another.
        lane = cell // 2 + (agent % 5 - 2) * thick
        cells = [divmod(place, level.width) for place in trail]
        left, top = MARGIN + lane, MARGIN + LINE + lane
        points = [(left + column * cell, top + row * cell) for row, column in cells]
        colour, (left, top) = COLOURS[agent % len(COLOURS)], points[-1]
        frame.line(points, colour, thick)
        frame.box(top - 2 * thick, left - 2 * thick, 4 * thick, 4 * thick, colour)
    return frame.pixels()
