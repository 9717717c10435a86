"""Maze: one agent finds its way to a goal, or several race, meet, or seek one goal each.

In each of `max_cycles` rounds every agent moves up, down, left or right (actions 0 to 3). Walls and
the border stop it; other agents do not. With d the Manhattan distance to its goal after the move,
the reward of an agent is

    +10              if it reaches its goal
    -1               if the episode ends and it is not at its goal
    -0.1 - 0.01 * d  otherwise

The `task` determines the goals and the end of an episode:

- "race": one goal for all. The first agent that reaches it ends the episode.
- "own": one goal per agent. An agent at its goal waits, with reward 0, until all have arrived.
- "meet": the goal is the cell of the farthest other agent. The episode ends when all are in one
  cell.

A completed task terminates the episode; otherwise it is truncated after `max_cycles` rounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from operator import eq
from statistics import fmean
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
from srl_envs.text import FixedChoices
from srl_envs.validation import (
    MOST_PLAYERS,
    check_choice,
    true_or_false,
    whole_number,
)

OBSERVATION_FIELDS = (
    "x",  # column of the agent / (width - 1), from left to right
    "y",  # row of the agent / (height - 1), from top to bottom
    "goal_dx",  # x of the goal minus x of the agent
    "goal_dy",
    "other_dx",  # x of the nearest other agent minus x of the agent; 0 for a single agent
    "other_dy",
    "last_dx",  # direction of the last action: -1, 0 or 1
    "last_dy",
    "blocked",  # 1 if a wall stopped the last move, else 0
    "arrived",  # 1 if the agent is at its goal, else 0
    "time",  # rounds played / max_cycles
    "visits_up",  # number of visits to the cell above / 9, at most 1; 0 for a wall
    "visits_down",
    "visits_left",
    "visits_right",
    "walls",  # the (2 * view_radius + 1)^2 cells around, row by row: 1 for a wall or the outside
)
VISITS_SHOWN = 9  # greatest number of visits that is counted
FARTHEST_VIEW = 40  # greatest view_radius; its map still fits into the text of an observation


@dataclass(frozen=True)
class MazeView(FixedChoices):
    """Text view of Maze."""

    choices: ClassVar[tuple[str, ...]] = ANSWERS

    width: int
    height: int
    view_radius: int
    task: str
    players: int
    rounds: int

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
        text = " ".join(parts)
        if self.view_radius > 1:
            across = 2 * self.view_radius + 1
            marks = ["#" if wall else "." for wall in walls]
            marks[len(marks) // 2] = "A"
            rows = [" ".join(marks[at : at + across]) for at in range(0, len(marks), across)]
            text += "\n".join(["\nAround you (A you, # wall, . free):", *rows])
        return text

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
MAX_CYCLES = 64  # default for documented layouts, and the least default for other mazes

# Fields last_dx, last_dy and blocked, by action.
WENT = tuple((float(dx), float(dy), 0.0) for dx, dy in STEPS)
BLOCKED = tuple((float(dx), float(dy), 1.0) for dx, dy in STEPS)
STAYED = (0.0, 0.0, 0.0)
LETTERS = "ABCDEFHIJKLMNOPQRSTUVWXYZ"  # marks of agents in text drawings; G marks goals
CROWD = "*"  # mark of agents for which there is no letter
SHARES = tuple(visits / VISITS_SHOWN for visits in range(VISITS_SHOWN + 1))


class Maze(base.SimultaneousGame):
    """PettingZoo ParallelEnv of a maze.

    Agents are agent_0, agent_1, ... Observations are float32 vectors of shape
    (15 + (2 * view_radius + 1)^2,), laid out as OBSERVATION_FIELDS. Infos of a step contain
    `shortest_path` (least number of rounds from the agent's start to its goal; for "meet", until
    all can be in one cell), `steps` (its moves, also blocked ones), `success` (it is at its goal;
    for "meet", all are in one cell), `level_seed` (None if not generated), `layout_hash` and, in
    the last round of a race of several agents, `winner`: the only agent at the goal, or "draw".

    Mazes are generated from `width`, `height` and `loop_share` unless a `layout` is given. Each
    episode has a new random maze of the `split`, unless `level_seed` or `num_levels` limits the
    choice. Without a layout, `reset(options={"level_seed": k})` selects the maze of one episode,
    which may be outside the choice but must be of the `split`.

    Args:
        layout: "simple", "medium", "complex", a Level, or the lines of Level.drawn.
        width: Number of columns, at least 3. None for 9.
        height: Number of rows, at least 3. None for 9.
        loop_share: Share, from 0 to 1, of walls between open cells that are opened. None for 0.
        level_seed: Play only this generated maze, which must be of the `split`.
        num_levels: Play only the first `num_levels` mazes of the split, at least 1.
        split: "train", "test" or "any". None for "train".
        num_agents: Number of agents, from 1 to 10,000; at least 2 for "meet".
        task: "race", "own" or "meet".
        view_radius: Distance, from 1 to 40 cells, up to which walls are observed.
        mask_walls: Mask moves into walls in `action_mask`. The game still accepts them.
        max_cycles: Number of rounds of an episode, at least 1. None for the number of cells, at
            least 64; 64 for a named layout.
        obs_mode: "vector", "dict" or "llm"; see SimultaneousGame.
        render_mode: "human", "ansi", "rgb_array" or None.

    Raises:
        EnvConfigError: An argument is invalid; `layout` is combined with an argument from `width`
            to `split`, or `level_seed` with `num_levels`; the split has too few mazes; or a maze
            may have too few cells for the agents.
    """

    metadata: ClassVar[dict[str, Any]] = base.metadata_of("maze_v0", fps=4)
    scripted: ClassVar[str | None] = "explorer"
    constant_actions: Sequence[int] = range(len(STEPS))

    level: Level
    """Maze of this episode."""
    levels: tuple[Level, ...]
    """Mazes that episodes choose from; empty if each episode has a new one."""

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
                raise EnvConfigError(f"{name} must be None with a layout, got {value!r}")
        if level_seed is not None and num_levels is not None:
            raise EnvConfigError(
                f"level_seed or num_levels must be None, got {level_seed!r} and {num_levels!r}"
            )
        agents = whole_number("num_agents", num_agents, 1, MOST_PLAYERS)
        self.task: str = check_choice("task", task, TASKS)
        if self.task == "meet" and agents < 2:
            raise EnvConfigError(f"num_agents must be at least 2 with task='meet', got {agents}")
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
            seating(self.levels[0], self.task, agents)  # Raises for a maze that is too small.
        elif self.task != "race" and agents > self.recipe.least_cells:
            raise EnvConfigError(
                f"num_agents must be at most width + height - 1 ({self.recipe.least_cells}) with "
                f"task={self.task!r}, got {agents}"
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
            max_cycles=max_cycles,
            obs_mode=obs_mode,
            render_mode=render_mode,
        )

    def make_view(self) -> MazeView:
        agents, rounds = len(self.possible_agents), self.max_cycles
        return MazeView(self.width, self.height, self.view_radius, self.task, agents, rounds)

    def first_rows(self, options: Mapping[str, Any]) -> Sequence[base.Row]:
        agents = len(self.possible_agents)
        seed = options.get("level_seed")
        self.level = self.draw_level(self.np_random) if seed is None else self.named_level(seed)
        self._board = board_of(self.level, self.view_radius)
        starts, goals, self._fewest = seating(self.level, self.task, agents)
        self._places = list(starts)
        self._goals = self._farthest() if self.task == "meet" else list(goals)
        self._arrived = [False] * agents
        # The last count, at index -1, is for blocked directions. It remains 0.
        self._visits = [[0] * (len(self._board.doors) + 1) for _ in starts]
        for visits, place in zip(self._visits, starts, strict=True):
            visits[place] = 1
        self._trails = [[place] for place in starts]
        return [self._row(agent, STAYED, 0.0) for agent in range(agents)]

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
        infos: list[dict[str, Any]] = [
            {
                "shortest_path": self._fewest[agent],
                "steps": len(self._trails[agent]) - 1,
                "success": arrived,
                "level_seed": self.level.seed,
                "layout_hash": self.level.layout_hash,
            }
            for agent, arrived in enumerate(now)
        ]
        if ends and self.task == "race" and len(now) > 1:
            winner = self.possible_agents[now.index(True)] if now.count(True) == 1 else "draw"
            for info in infos:
                info["winner"] = winner
        return rows, rewards, infos

    def best_return(self) -> float:
        """Return the mean of the agents' greatest possible returns; for "meet", an upper bound."""
        if self.task == "meet":
            return ARRIVAL + (STEP + DISTANCE) * (min(self._fewest[0], self.rounds) - 1)
        return fmean(map(self._best_way, self._places, self._goals))

    def masks(self) -> Sequence[np.ndarray] | np.ndarray:
        if not self.mask_walls:
            return self._every_action
        doors = self._board.doors
        legal = [
            [arrived or there >= 0 for there in doors[place]]
            for arrived, place in zip(self._arrived, self._places, strict=True)
        ]
        return np.array(legal, np.int8)

    def drawn_in_text(self) -> str:
        """Return headline and maze: A, B, ... (then *) agents, G fixed goals, # walls, . free."""
        width = self.level.width
        marks = ["." if ways else "#" for ways in self.level.doors]
        for goal in () if self.task == "meet" else self._goals:
            marks[goal] = "G"
        for agent, place in reversed(list(enumerate(self._places))):
            marks[place] = LETTERS[agent] if agent < len(LETTERS) else CROWD
        rows = ["".join(marks[at : at + width]) for at in range(0, len(marks), width)]
        return "\n".join([self.headline(), *rows, ""])

    def draw_level(self, generator: np.random.Generator) -> Level:
        """Return a random maze: one of `levels`, or a new one of `split` if `levels` is empty."""
        if self.levels:
            return self.levels[self.draw_number(generator)]
        return self.recipe.sample(generator, self.split)

    def draw_number(self, generator: np.random.Generator) -> int:
        """Return a random index of `levels`, or 0, without a draw, for at most one level."""
        return int(generator.integers(len(self.levels))) if len(self.levels) > 1 else 0

    def named_level(self, seed: Any) -> Level:
        """Return the maze of a level seed.

        Raises EnvConfigError if the seed is invalid or of another split, or with a `layout`.
        """
        if self._is_drawn:
            raise EnvConfigError(f"level_seed must be None with a layout, got {seed!r}")
        level = self.recipe.level(seed)
        if self.split not in ("any", level.split):
            raise EnvConfigError(
                f"level_seed must be of the {self.split} split, got {seed}, of the {level.split} "
                "split: see MazeRecipe.level_seeds, or set split='any'"
            )
        return level

    def _move(self, agent: int, action: int) -> tuple[float, float, float]:
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
        up, down, left, right = board.doors[place]
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

    def _best_way(self, start: int, goal: int) -> float:
        """Return the greatest return from cell `start` to cell `goal`, by value iteration."""
        doors = np.array([ways or (-1,) * len(STEPS) for ways in self._board.doors])
        doors = np.where(doors < 0, np.arange(len(doors))[:, None], doors)
        away = np.array([self._board.distance(cell, goal) for cell in range(len(doors))])
        # Return from the move into each cell to the end; here of the last round.
        value = np.where(away == 0, ARRIVAL, TOO_LATE)
        for _ in range(self.rounds - 1):
            further = STEP + DISTANCE * away + value[doors].max(axis=1)
            value = np.where(away == 0, ARRIVAL, further)
        return float(value[doors[start]].max())

    def _farthest(self) -> list[int]:
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
    """Return three tuples by agent: start, goal, and least number of rounds to reach the goal.

    Cells are numbers. For "race", all have the level's start and goal. Otherwise, starts are
    `Level.stations`. For "own", the goal of an agent is the start of the next (of the last agent,
    that of the first), for one agent the level's goal. For "meet", goals are the starts, and rounds
    are those until all can meet. Raises EnvConfigError if the level has too few reachable cells.
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
    # Nearer agents may wait, so all can be in a cell as soon as the farthest agent is.
    far = zip(*map(level.distances, starts), strict=True)
    soonest = min(max(lengths) for lengths in far if min(lengths) >= 0)
    return starts, starts, (soonest,) * agents


parallel_env = Maze
